"""scripts/prose.py: which sentences it reads, and which it refuses."""
import importlib.util
import pathlib
import unittest

PATH = pathlib.Path(__file__).parents[2] / "scripts" / "prose.py"
SPEC = importlib.util.spec_from_file_location("prose_script", PATH)
prose = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(prose)


def found_in(blocks):
    return [finding for _, block in blocks for sentence in prose.sentences(block)
            for finding in prose.findings(sentence)]


class Prose(unittest.TestCase):
    def test_comments_and_test_names_of_a_source_file(self):
        text = ('// What it does.\n'
                '//     code, whose words are its own\n'
                'int x;  // a short note\n'
                'const char* url = "https://who.example";\n'
                'TEST_CASE("what nobody\\n reads") {}\n')
        self.assertEqual(found_in(prose.source_blocks(text)), ['begins with "What": What it does.'])
        self.assertEqual(len(found_in(prose.test_names(text.replace("\\n", "")))), 2)

    def test_a_sentence_has_at_most_25_words(self):
        self.assertEqual(found_in([(1, "word " * 25 + ".")]), [])
        self.assertEqual(len(found_in([(1, "word " * 26 + ".")])), 1)
        self.assertEqual(found_in([(1, "Word " * 20 + "end. " + "Word " * 20 + "end.")]), [])

    def test_code_and_tables_of_a_page_are_no_prose(self):
        page = "# Who\n\nA page.\n\n```sh\nwho am i\n```\n\n| who |\n|---|\n\n- whose item\n"
        self.assertEqual(found_in(prose.markdown_blocks(page)), ['"whose": whose item'])


if __name__ == "__main__":
    unittest.main()
