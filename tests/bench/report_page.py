"""The page of a made-up run: its tables, what it embeds and what it escapes."""

import html.parser
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import charts
from report_page import page
from predicted_rows import ALONE, report, row

VOID = {"meta", "img"}


class Page(html.parser.HTMLParser):
    """The rows of each table, the sources of images; fails where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.images, self.open = [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "img":
            self.images.append(dict(attributes)["src"])
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data


def made(*rows, **more):
    return report(*rows, **{"model": "mpnet-base", "batch_per_device": "32", "processor": "a <fast> one",
                            "commit": "abc1234", **more})


NONE = row("none", 1, ALONE, speedup=1, published={"devices": 1, "samples_per_s": 2724, "speedup": 1})
DDP = row("ddp", 2, {"data": 1, "forward": 200, "backward": 400, "optimizer": 81}, 30, speedup=1.5, collectives_ms=50,
          step_spread=0.034, published={"devices": 4, "samples_per_s": 6980, "speedup": 2.562})


class OfARun(unittest.TestCase):
    def test_what_was_printed_is_there_as_it_is(self):
        text = page(made(NONE, DDP), "| ddp | 2 | <1.500> |\n", None)
        self.assertIn("<pre>| ddp | 2 | &lt;1.500&gt; |\n</pre>", text)

    def test_a_step_has_its_phases(self):
        steps, _ = Page(page(made(NONE, DDP), "", None)).tables
        self.assertEqual(steps[2], ["ddp", "682.0", "1.0", "200.0", "400.0", "81.0", "50.0", "30.0"])

    def test_it_says_how_it_was_made_and_that_the_timeline_is_another_run(self):
        facts = {"rounds": 2, "steps": 3, "warmup": 1, "date": "2026-01-02 03:04 UTC", "cores": 2, "load": 0.5}
        text = page(made(NONE, DDP, **facts, data="12 rows of a.csv"), "", "<svg/>", "scripts/bench.sh --steps 3")
        shown = dict(Page(text).tables[-1])
        for name, value in {**facts, "data": "12 rows of a.csv", "command": "scripts/bench.sh --steps 3"}.items():
            self.assertEqual(shown[name], str(value))
        self.assertIn("Another run, of two steps, whose last is drawn.", text)
        self.assertNotIn("Another run", page(made(NONE, DDP), "", None))

    def test_it_names_the_machine_and_links_to_nothing(self):
        text = page(made(NONE, DDP), "", "<svg><title>drawn</title></svg>")
        shown = Page(text)
        facts = dict(shown.tables[-1])
        self.assertEqual((facts["processor"], facts["commit"]), ("a <fast> one", "abc1234"))
        self.assertEqual(len(shown.images), 2)
        for source in shown.images:
            self.assertTrue(source.startswith("data:image/svg+xml;base64,"))
        self.assertIsNone(re.search(r"https?://|<script|<link|url\(", text))

    def test_one_device_has_no_bars(self):
        self.assertEqual(Page(page(made(NONE), "", None)).images, [])


def texts(svg):
    """(x, y, words) of the labels of a chart that begin at x."""
    return [(float(x), float(y), words) for x, y, words in re.findall(r'<text x="([\d.]+)" y="([\d.]+)">(.*?)</text>', svg)]


class Charts(unittest.TestCase):
    def test_the_label_of_a_share_beyond_linear_is_in_the_picture(self):
        for speedup in 1.9, 2.6, 7:
            for x, _, words in texts(charts.shares([{**DDP, "speedup": speedup}])):
                self.assertLessEqual(x + 7 * len(words), charts.WIDTH, words)


if __name__ == "__main__":
    unittest.main()
