#!/usr/bin/env python3
"""One page of a run, without links to other files: report_page.py FILE --output PAGE, FILE written by throughput --json.

The table next to the published one, bars, the modelled speed-ups with the terms to blame, a timeline, the machine.
"""
import argparse
import base64
import html
import json
import pathlib

import charts
import predicted

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #24292f; background: #fff; max-width: 860px; margin: 0 auto;
       padding: 0 12px; overflow-wrap: anywhere }
h1 { font-size: 24px } h2 { font-size: 18px; margin-top: 32px }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid #d8dee4; padding: 4px 6px; text-align: right; vertical-align: top }
th:first-child, td:first-child { text-align: left }
.facts td { text-align: left } .wide th, .wide td { overflow-wrap: normal }
img { width: 100%; max-width: 640px; height: auto }
@media (max-width: 640px) {
  .wide th { display: none }
  .wide tr { display: grid; grid-template-columns: repeat(3, 1fr); border-bottom: 1px solid #d8dee4 }
  .wide td { border: 0; text-align: left; overflow-wrap: anywhere }
  .wide td::before { content: attr(data-head); display: block; font-size: 11px; color: #57606a }
}
"""


def table(head, rows):
    """On a narrow screen each row is a card, in which each cell has its head."""
    lines = ["".join(f"<th>{html.escape(name)}</th>" for name in head)] if any(head) else []
    for row in rows:
        lines.append("".join(f'<td data-head="{html.escape(name)}">{html.escape(str(cell))}</td>'
                             for name, cell in zip(head, row)))
    kind = "wide" if len(head) > 2 else "facts"
    return f'<table class="{kind}">' + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def image(svg, title):
    """As data, so that its styles stay its own."""
    return f'<img alt="{title}" src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}">'


def of_linear(speedup, devices):
    if speedup is None:
        return "-", "-"
    return f"{speedup:.3f}", f"{100 * speedup / devices:.0f} %"


def spread(row):
    return f"{100 * row['step_spread']:.0f} %" if "step_spread" in row else "-"


def noise(rows):
    """A warning, if steps vary too much."""
    noisy = [f"{row['strategy']} ({spread(row)})" for row in rows if not predicted.steady(row)]
    return ("<p><strong>The steps of these rows vary too much, or are too few</strong>: " + html.escape(", ".join(noisy)) + ". Their "
            "ratios are left out, and all if none is one of them.</p>") if noisy else ""


def measured(rows):
    head = ("strategy", "devices", "pairs/s", "spread", "speed-up", "of linear", "4 V100, samples/s",
            "4 V100, speed-up", "4 V100, of linear")
    lines = []
    for row in rows:
        theirs = row.get("published")
        lines.append((row["strategy"], row["devices"], f"{row['pairs_per_s']:.2f}", spread(row),
                      *of_linear(row.get("speedup"), row["devices"]),
                      *((theirs["samples_per_s"], *of_linear(theirs["speedup"], theirs["devices"])) if theirs else "---")))
    return table(head, lines)


def steps(rows):
    head = ("strategy", "step ms", "data", "forward", "backward", "optimizer", "collectives", "exposed")
    return table(head, [(row["strategy"], f"{row['step_ms']['median']:.1f}",
                         *(f"{row['step_ms'][phase]:.1f}" if phase in row["step_ms"] else "-" for phase in head[2:6]),
                         f"{row['collectives_ms']:.1f}" if "collectives_ms" in row else "-",
                         f"{row['exposed_ms']:.1f}") for row in rows])


def modelled(report):
    if predicted.unpredictable(report):
        return f"<p>No speed-up is modelled: {predicted.unpredictable(report)}.</p>"
    lines = []
    for strategy, model, found, terms in predicted.predictions(report):
        if found is not None:
            lines.append((strategy, f"{found:.3f}", f"{model:.3f}", f"{100 * (found / model - 1):+.1f} %",
                          predicted.blame(terms), *(f"{terms.get(term, 0):+.1f}" for term in predicted.TERMS)))
    if not lines:
        return "<p>No speed-up was measured that could be compared with the modelled one.</p>"
    head = ("strategy", "speed-up", "modelled", "difference", "to blame", *predicted.TERMS)
    return table(head, lines) + ("<p>The terms are ms by which a step takes longer than the modelled one. To blame is "
                                 "the largest with the sign of their sum.</p>")


def machine(report, command):
    """What the run says about itself, but for the measured values."""
    gpus = [gpu["model"] for gpu in report.get("machine", {}).get("gpus", [])]
    facts = {"GPUs": ", ".join(gpus)} if gpus else {}
    if command:
        facts["command"] = command
    shown = ("date", "commit", "processor", "cores", "load", "device", "isa", "gpu", "threads_per_device", "ranks",
             "transport", "algorithm", "model", "batch_per_device", "data", "recipe", "rounds", "steps", "warmup")
    facts.update((name.replace("_", " "), report[name]) for name in shown if name in report)
    if "load" in facts:
        facts["load"] = f"{facts['load']:.1f}"
    return table(("", ""), facts.items())


def page(report, timeline, command=""):
    rows = report["rows"]
    several = [row for row in rows if row["strategy"] in charts.NAMES and "speedup" in row]
    kind = "CPU" if report["device"].startswith("cpu") else "GPU"
    parts = ["<h1>ringlet: training throughput</h1>",
             f"<p>{html.escape(report['model'])}, {report['batch_per_device']} pairs per device, {rows[0]['dtype']}.</p>",
             "<h2>Next to the published table</h2>", measured(rows), noise(rows),
             "<p>Spread: the range of the steps over their median, of 10 or more steps without the lowest and the highest "
             "tenth. The last three "
             "columns are Sentence Transformers' documentation, “Distributed Training”: mpnet-base on four V100. Its samples "
             "are rows of data sets, trained or not, so compare the ratios.</p>"]
    if several:
        parts.append(image(charts.shares(several, kind), "speed-ups as shares of linear scaling"))
    parts += ["<h2>Measured and modelled</h2>", modelled(report),
              "<h2>A step</h2>", steps(rows),
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
    parser.add_argument("--timeline", type=pathlib.Path, metavar="SVG", help="written by throughput --timeline")
    parser.add_argument("--command", default="", help="by which the report was made")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="PAGE")
    given = parser.parse_args()
    made = page(json.loads(given.report.read_text(encoding="utf8")),
                given.timeline.read_text(encoding="utf8") if given.timeline else None,
                given.command)
    given.output.write_text(made, encoding="utf8")
