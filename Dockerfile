# Debian 12 and the build of README.md, for other systems:
#   docker build -t ringlet .
#   docker run --rm -v "$PWD/out:/ringlet/out" ringlet train --model tiny --output out/tiny
FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends \
    g++ meson ninja-build pkg-config libeigen3-dev libfmt-dev libgloo-dev libminizip-dev libssl-dev libtomlplusplus-dev libutf8proc-dev nlohmann-json3-dev zlib1g-dev
WORKDIR /ringlet
COPY . .
RUN meson setup build && ninja -C build train/cli/ringlet
ENTRYPOINT ["build/train/ringlet"]
