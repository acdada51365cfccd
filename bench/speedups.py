#!/usr/bin/env python3
"""Draws docs/speedups.svg: speed-ups as shares of linear scaling, the published ones next to ours.

    python3 bench/speedups.py [RESULTS.json]    # written by throughput --json
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLISHED = {"dp": 1.349 / 4, "ddp": 2.562 / 4, "fsdp": 2.122 / 4}  # Sentence Transformers, 4 V100
NAMES = {"dp": "DP", "ddp": "DDP", "zero1": "ZeRO-1", "fsdp": "FSDP"}
WIDTH, ROW, LEFT, SCALE = 700, 46, 80, 4.4


def bar(y, share, colour, text):
    return (f'<rect x="{LEFT}" y="{y}" width="{100 * share * SCALE:.1f}" height="16" fill="{colour}"/>'
            f'<text x="{LEFT + 100 * share * SCALE + 6:.1f}" y="{y + 13}">{100 * share:.0f} % {text}</text>')


def main(results):
    rows = json.loads(pathlib.Path(results).read_text())["rows"]
    ours = {row["strategy"]: row["speedup"] / row["devices"] for row in rows if row["strategy"] in NAMES}
    devices = max(row["devices"] for row in rows)
    height = 12 + ROW * len(ours)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
           "<title>speed-ups as shares of linear scaling</title>",
           "<style>svg { font: 12px system-ui, sans-serif } text { fill: #57606a }</style>",
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    for i, (strategy, share) in enumerate(ours.items()):
        y = 10 + ROW * i
        out.append(f'<text x="{LEFT - 8}" y="{y + 22}" text-anchor="end">{NAMES[strategy]}</text>')
        out.append(bar(y, share, "#0072b2", f"ringlet, {devices} CPU devices"))
        if strategy in PUBLISHED:
            out.append(bar(y + 19, PUBLISHED[strategy], "#d0d7de", "published, 4 V100"))
    (ROOT / "docs/speedups.svg").write_text("\n".join(out + ["</svg>", ""]))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ROOT / "bench/results/cpu_strategies_mpnet_base_f32_zen4.json")
