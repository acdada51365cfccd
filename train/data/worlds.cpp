#include "ringlet/train/data/worlds.h"

#include <string>
#include <string_view>
#include <vector>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

constexpr std::string_view kPeople = R"(person|people
 child|children
  boy|boys
  girl|girls
 adult|adults
  man|men
  woman|women
)";

constexpr std::string_view kAnimals = R"(animal|animals
 dog|dogs
  poodle|poodles
  terrier|terriers
 cat|cats
  kitten|kittens
 bird|birds
  parrot|parrots
  owl|owls
 horse|horses
  pony|ponies
)";

constexpr std::string_view kPeopleActions = R"(*doing
 playing an instrument
  playing the guitar
  playing the violin
  playing the drums
  playing the flute
 playing a ball game
  playing soccer
  playing basketball
  playing tennis
  playing volleyball
 playing a board game
  playing chess
  playing checkers
  playing dominoes
 eating something
  eating an apple
  eating a sandwich
  eating a bowl of soup
  eating a slice of pizza
 drinking something
  drinking a cup of tea
  drinking a glass of juice
  drinking some water
 reading something
  reading a book
  reading a newspaper
  reading a letter
 making art
  painting a picture
  drawing a map
  carving a wooden spoon
  shaping a clay pot
 exercising
  doing push-ups
  jumping rope
  stretching
  lifting weights
 cleaning
  sweeping the floor
  washing a window
  wiping a table
 dancing
  dancing a waltz
  dancing a tango
 resting
  sleeping
  sitting quietly
 using a machine
  typing on a laptop
  talking on a phone
  taking a photo
)";

constexpr std::string_view kAnimalActions = R"(*doing
 eating something
  eating from a bowl
  eating some grass
  eating a carrot
 drinking
  drinking from a bucket
  drinking from a puddle
 resting
  sleeping
  sitting still
  lying on one side
 playing
  chasing a ball
  pulling a rope
  rolling a barrel
 moving about
  running in circles
  jumping up and down
  walking slowly
 making a noise
  calling loudly
  scratching a door
 grooming
  licking one foot
  shaking off water
)";

constexpr std::string_view kPeopleAdjectives = R"(*height
 tall
 short
*mood
 happy
 sad
*skin
 wet
 dry
*voice
 quiet
 noisy
*nerves
 calm
 nervous
*dress
 clean
 muddy
*manner
 polite
 rude
)";

constexpr std::string_view kAnimalAdjectives = R"(*size
 large
 small
*fur
 wet
 dry
*voice
 quiet
 noisy
*nerves
 calm
 nervous
*dress
 clean
 muddy
*age
 old
 young
*character
 friendly
 fierce
)";

constexpr std::string_view kPlaces = R"(*where
 outdoors
  in a park
  on a beach
  in a garden
  on a bridge
  in a forest
  beside a lake
  on a farm
  in a parking lot
  on a mountain trail
  on a boat
 indoors
  in a kitchen
  in a library
  in a classroom
  in a museum
  in a hotel lobby
  in a gym
  in a living room
  in a bakery
  in a train station
  in an office
)";

constexpr std::string_view kTimes = R"(*hour
 during the day
  in the morning
  at noon
  in the afternoon
 after dark
  in the evening
  at midnight
*weather
 on a rainy day
 on a sunny day
 on a foggy day
 on a snowy day
)";

/// Trees like "in a coat" above "in a red coat", "in a blue coat", …
std::string clothing(std::string_view preposition, const std::vector<std::string_view>& garments) {
  std::string lines;
  for (const std::string_view garment : garments) {
    lines += str(preposition, " a ", garment, "|", preposition, " ", garment, "s\n");
    for (const char* colour : {"red", "blue", "green", "yellow", "black", "white"}) {
      lines += str(" ", preposition, " a ", colour, " ", garment, "|", preposition, " ", colour,
                   " ", garment, "s\n");
    }
  }
  return lines;
}

}  // namespace

const std::array<World, 2>& worlds() {
  static const std::array<World, 2> kWorlds{{
      {{Terms(kPeople), Terms(kPeopleActions), Terms(kPeopleAdjectives),
        Terms(clothing("in", {"coat", "hat", "shirt", "scarf", "sweater"})), Terms(kPlaces),
        Terms(kTimes)}},
      {{Terms(kAnimals), Terms(kAnimalActions), Terms(kAnimalAdjectives),
        Terms(clothing("with", {"collar", "ribbon", "bell"})), Terms(kPlaces), Terms(kTimes)}},
  }};
  return kWorlds;
}

}  // namespace ringlet::train
