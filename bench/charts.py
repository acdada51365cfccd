#!/usr/bin/env python3
"""Charts as SVG. Run, draws docs/speedups.svg: speed-ups as shares of linear scaling, the published ones next to ours.

    python3 bench/charts.py [RESULTS.json]    # written by throughput --json
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFERENCE = json.loads((ROOT / "bench/data/scaling.json").read_text(encoding="utf8"))["reference"]  # on four V100
NAMES = {"dp": "DP", "ddp": "DDP", "zero1": "ZeRO-1", "fsdp": "FSDP"}
COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7"


def picture(height, title, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {height}" role="img">',
                      f"<title>{title}</title>",
                      "<style>svg { font: 12px system-ui, sans-serif } text { fill: #57606a }</style>",
                      f'<rect width="700" height="{height}" fill="#ffffff"/>', *parts, "</svg>", ""])


def lines(charts):
    """For each (title, {strategy: [(devices, speed-up)]}) a chart, one below the other."""
    parts, height = [], 300
    for top, (title, drawn) in zip(range(0, height * len(charts), height), charts):
        most = max(drawn["ddp"])[0]

        def place(n, speedup):
            return 40 + 560 * n / most, top + 260 - 225 * speedup / most

        def line(points, colour):
            points = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in points)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')

        def text(x, y, words):
            parts.append(f'<text x="{x:.1f}" y="{y:.1f}">{words}</text>')

        text(40, top + 20, f"{title}: speed-up by devices, modelled")
        line([(0, 0), (most, most)], "#d0d7de")
        for n, _ in drawn["ddp"]:
            text(place(n, 0)[0], top + 280, n)
        for colour, (name, points) in zip(COLOURS, drawn.items()):
            line(points, colour)
            text(place(*points[-1])[0] + 6, place(*points[-1])[1], f"{name} {points[-1][1]:.1f}")
    return picture(height * len(charts), "speed-ups, modelled", parts)


def bar(y, share, colour, text):
    return (f'<rect x="80" y="{y}" width="{440 * share:.1f}" height="16" fill="{colour}"/>'
            f'<text x="{440 * share + 86:.1f}" y="{y + 13}">{100 * share:.0f} % {text}</text>')


def shares(rows, kind="CPU"):
    parts, devices = [], max(row["devices"] for row in rows)
    ours = {row["strategy"]: row["speedup"] / row["devices"] for row in rows
            if row["strategy"] in NAMES and "speedup" in row}
    for y, (strategy, share) in zip(range(10, 46 * len(ours) + 10, 46), ours.items()):
        parts += [f'<text x="72" y="{y + 22}" text-anchor="end">{NAMES[strategy]}</text>',
                  bar(y, share, COLOURS[0], f"ringlet, {devices} {kind} devices")]
        if strategy in REFERENCE["rows"]:
            parts.append(bar(y + 19, REFERENCE["rows"][strategy]["speedup"] / 4, "#d0d7de", "published, 4 V100"))
    return picture(12 + 46 * len(ours), "speed-ups as shares of linear scaling", parts)


if __name__ == "__main__":
    RESULTS = sys.argv[1] if len(sys.argv) > 1 else ROOT / "bench/results/cpu_strategies_mpnet_base_f32_zen4.json"
    (ROOT / "docs/speedups.svg").write_text(shares(json.loads(pathlib.Path(RESULTS).read_text())["rows"]))
