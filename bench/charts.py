#!/usr/bin/env python3
"""Speed-ups as shares of linear scaling, the published ones next to ours, as SVG. Run, draws docs/speedups.svg.

    python3 bench/charts.py [RESULTS.json]    # written by throughput --json
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFERENCE = json.loads((ROOT / "bench/data/scaling.json").read_text(encoding="utf8"))["reference"]  # on four V100
NAMES = {"dp": "DP", "ddp": "DDP", "zero1": "ZeRO-1", "fsdp": "FSDP"}
WIDTH = 480  # so narrow that text of 12 px can be read where a page is 420 px wide


def picture(height, title, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
                      f"<title>{title}</title>",
                      "<style>svg { font: 12px system-ui, sans-serif } text { fill: #24292f }</style>",
                      f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>', *parts, "</svg>", ""])


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
                  bar(y, share, scale, "#0072b2", f"ringlet, {devices} {kind} devices")]
        if strategy in REFERENCE["rows"]:
            parts.append(bar(y + 19, REFERENCE["rows"][strategy]["speedup"] / 4, scale, "#8c959f", "published, 4 V100"))
    return picture(12 + 46 * len(ours), "speed-ups as shares of linear scaling", parts)


if __name__ == "__main__":
    RESULTS = sys.argv[1] if len(sys.argv) > 1 else ROOT / "bench/results/cpu_strategies_mpnet_base_f32_zen4.json"
    (ROOT / "docs/speedups.svg").write_text(shares(json.loads(pathlib.Path(RESULTS).read_text())["rows"]))
