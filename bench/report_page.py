#!/usr/bin/env python3
"""One page of a run, without links to other files: report_page.py FILE --output PAGE, FILE written by throughput --json.

The tables that were printed, bars, the phases of a step, a timeline, the machine.
"""
import argparse
import base64
import html
import json
import pathlib

import charts

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #24292f; background: #fff; max-width: 860px; margin: 0 auto;
       padding: 0 12px; overflow-wrap: anywhere }
h1 { font-size: 24px } h2 { font-size: 18px; margin-top: 32px }
pre { font-size: 13px; overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid #d8dee4; padding: 4px 6px; text-align: left; vertical-align: top }
img { width: 100%; max-width: 640px; height: auto }
"""


def table(*rows):
    """The first row is the head."""
    lines = ["".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)
             for tag, row in zip(["th", *["td"] * len(rows)], rows)]
    return "<table>" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def image(svg, title):
    """As data, so that its styles stay its own."""
    return f'<img alt="{title}" src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}">'


def steps(rows):
    head = ("strategy", "step ms", "data", "forward", "backward", "optimizer", "collectives", "exposed")
    return table(head, *((row["strategy"], f"{row['step_ms']['median']:.1f}",
                          *(f"{row['step_ms'][phase]:.1f}" if phase in row["step_ms"] else "-" for phase in head[2:6]),
                          f"{row['collectives_ms']:.1f}" if "collectives_ms" in row else "-",
                          f"{row['exposed_ms']:.1f}") for row in rows))


def machine(report, command):
    """What the run says about itself, but for the measured values."""
    gpus = [gpu["model"] for gpu in report.get("machine", {}).get("gpus", [])]
    facts = {"GPUs": ", ".join(gpus), "command": command,
             **{name.replace("_", " "): value for name, value in report.items() if isinstance(value, (str, int, float))}}
    return table(("", ""), *((name, value) for name, value in facts.items() if value != ""))


def page(report, printed, timeline, command=""):
    rows = report["rows"]
    several = [row for row in rows if row["strategy"] in charts.NAMES and "speedup" in row]
    kind = "CPU" if report["device"].startswith("cpu") else "GPU"
    parts = ["<h1>ringlet: training throughput</h1>", f"<pre>{html.escape(printed)}</pre>"]
    if several:
        parts.append(image(charts.shares(several, kind), "speed-ups as shares of linear scaling"))
    parts += ["<h2>A step</h2>", steps(rows),
              "<p>ms by phase. Exposed: the part of collectives for which computing waits.</p>"]
    if timeline:
        parts += ["<h2>A timeline</h2>",
                  "<p>Another run, of two steps, whose last is drawn. Recording takes time, so its times are not those of "
                  "the table.</p>", image(timeline, "timeline of a step")]
    return "\n".join(["<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
                      '<meta name="viewport" content="width=device-width, initial-scale=1">',
                      f"<title>ringlet: {html.escape(report['model'])}</title><style>{STYLE}</style></head><body>",
                      *parts, "<h2>The machine and the run</h2>", machine(report, command), "</body></html>", ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--printed", type=pathlib.Path, required=True, metavar="TEXT", help="the tables of the run")
    parser.add_argument("--timeline", type=pathlib.Path, required=True, metavar="SVG", help="written by throughput --timeline")
    parser.add_argument("--command", default="", help="by which the report was made")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="PAGE")
    given = parser.parse_args()
    given.output.write_text(page(json.loads(given.report.read_text(encoding="utf8")), given.printed.read_text(encoding="utf8"),
                                 given.timeline.read_text(encoding="utf8"), given.command), encoding="utf8")
