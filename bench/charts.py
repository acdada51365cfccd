#!/usr/bin/env python3
"""Charts as SVG. Run, draws docs/speedups.svg: speed-ups as shares of linear scaling, the published ones next to ours.

    python3 bench/charts.py [RESULTS.json]    # written by throughput --json
"""
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFERENCE = json.loads((ROOT / "bench/data/scaling.json").read_text(encoding="utf8"))["reference"]  # on four V100
NAMES = {"dp": "DP", "ddp": "DDP", "zero1": "ZeRO-1", "fsdp": "FSDP"}
COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7"


WIDTH = 480  # so narrow that text of 12 px can be read where a page is 420 px wide
LINE = 15  # from one label to the next
GREY = "#6e7781"


def picture(height, title, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
                      f"<title>{title}</title>",
                      "<style>svg { font: 12px system-ui, sans-serif } text { fill: #24292f }</style>",
                      f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *parts, "</svg>", ""])


def spread_out(wanted):
    """The places of labels in a column, at least LINE apart, in the order of `wanted`."""
    places = [None] * len(wanted)
    last = -math.inf
    for i in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        last = places[i] = max(wanted[i], last + LINE)
    return places


def lines(charts):
    """For each (title, {strategy: [(devices, speed-up)]}) a chart, one below the other; both axes are logarithmic."""
    parts, height, left, right = [], 320, 40, WIDTH - 90
    for top, (title, drawn) in zip(range(0, height * len(charts), height), charts):
        most = max(drawn["ddp"])[0]

        def place(n, speedup):
            return left + (right - left) * math.log(n, most), top + 280 - 225 * math.log(speedup, most)

        def line(points, colour, more=""):
            points = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{more}/>')

        def text(x, y, words, more=""):
            parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{more}>{words}</text>')

        text(left, top + 20, f"{title}: speed-up by devices, modelled")
        for n, _ in drawn["ddp"]:
            x, y = place(n, n)
            parts.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#d8dee4"/>')
            text(x, top + 298, n, ' text-anchor="middle"')
            text(left - 8, y + 4, n, ' text-anchor="end"')
        line([(1, 1), (most, most)], GREY, ' stroke-dasharray="5 4"')
        text(right + 6, place(most, most)[1] + 4, "linear")
        ends = [place(*points[-1]) for points in drawn.values()]
        places = [y + 4 for _, y in ends]
        at_right = [i for i, (x, _) in enumerate(ends) if x >= right - 1]
        for i, y in zip(at_right, spread_out([ends[i][1] + 4 for i in at_right])):
            places[i] = y
        for colour, (name, points), (x, _), y in zip(COLOURS, drawn.items(), ends, places):
            line(points, colour)
            text(x + 6, y, f"{name} {points[-1][1]:.1f}")
    return picture(height * len(charts), "speed-ups, modelled", parts)


def bar(y, share, scale, colour, text):
    return (f'<rect x="64" y="{y}" width="{scale * share:.1f}" height="16" fill="{colour}"/>'
            f'<text x="{scale * share + 70:.1f}" y="{y + 13}">{100 * share:.0f} % {text}</text>')


def shares(rows, kind="CPU"):
    parts, devices = [], max(row["devices"] for row in rows)
    ours = {row["strategy"]: row["speedup"] / row["devices"] for row in rows
            if row["strategy"] in NAMES and "speedup" in row}
    scale = 210 / max(1, *ours.values())  # a share beyond linear is as wide as the picture allows
    for y, (strategy, share) in zip(range(10, 46 * len(ours) + 10, 46), ours.items()):
        parts += [f'<text x="56" y="{y + 22}" text-anchor="end">{NAMES[strategy]}</text>',
                  bar(y, share, scale, COLOURS[0], f"ringlet, {devices} {kind} devices")]
        if strategy in REFERENCE["rows"]:
            parts.append(bar(y + 19, REFERENCE["rows"][strategy]["speedup"] / 4, scale, "#8c959f", "published, 4 V100"))
    return picture(12 + 46 * len(ours), "speed-ups as shares of linear scaling", parts)


if __name__ == "__main__":
    RESULTS = sys.argv[1] if len(sys.argv) > 1 else ROOT / "bench/results/cpu_strategies_mpnet_base_f32_zen4.json"
    (ROOT / "docs/speedups.svg").write_text(shares(json.loads(pathlib.Path(RESULTS).read_text())["rows"]))
