#!/usr/bin/env python3
"""The speed-ups that the model predicts beside the measured ones: predicted.py FILE, which throughput --json wrote.

The inputs are the run's own step of one device and the all-reduces that it timed: see bench/results/scaling.md.
"""
import json
import pathlib
import sys
import textwrap

from scaling import (MIB, STRATEGIES, Link, Machine, Network, apart, base_row, expected_maximum, phases_of,
                     spread_of, step_of, table)


TERMS = "data", "compute", "collectives", "optimizer"


def machine_of(report, rows):
    """With the device of the base row and the link of the run."""
    base, cpu = base_row(rows), report["device"].startswith("cpu")
    per_column = report["forwards_per_step"] != "one"
    device = step_of(base, spread=spread_of(rows),
                     forwards=round(base["sentences_per_s"] / base["pairs_per_s"]) if per_column else 1)
    # A batch reads at most one row per token; on a GPU the whole gradient of the table is sent.
    tokens = base["real_tokens_per_s"] * base["step_ms"]["median"] / 1e3 / base["devices"] if cpu else 0
    # The model scales times of two devices, each of which sends the whole buffer.
    ranks = report["link"]["ranks"]
    timed = [(row["bytes"], row["us"] * 1e-6 / (2 * (ranks - 1) / ranks)) for row in report["link"]["all_reduce"]]
    share = 1 / int(report["threads_per_device"]) if cpu else 0
    return Machine(device, Network.of(report["encoder"], 4, tokens),
                   Link("the run's", timed=timed, share=share, shared_memory=cpu))


def excess(row, base, step):
    """By term: ms of a measured step beyond the modelled one; the terms add up to the difference."""
    ms = row["step_ms"]
    terms = {"data": ms["data"] - base["step_ms"]["data"]}
    if apart(row):  # nothing within a replayed step is timed
        terms["collectives"] = row["exposed_ms"] - 1e3 * step.exposed
    if apart(row) and apart(base):
        gathers = min(step.gather / step.exposed * row["exposed_ms"], ms["optimizer"]) if step.gather else 0
        terms["optimizer"] = ms["optimizer"] - gathers - 1e3 * step.optimizer
    return {"compute": ms["median"] - 1e3 * step.seconds() - sum(terms.values()), **terms}


def blame(terms):
    """The largest term with the sign of the sum."""
    return max(terms, key=lambda term: terms[term] * (-1 if sum(terms.values()) < 0 else 1))


def notes(rows, device, ranks):
    """What the base step leaves open."""
    base, none, side = base_row(rows), rows["none"], rows.get("unconnected")
    if not apart(base):
        yield ("It is replayed as a graph, so its phases are not known: forward and backward are taken as 1 : 2, the "
               "update and the cost of launching several devices' steps as part of them.")
    elif base is not none:
        slower = base["step_ms"]["median"] / none["step_ms"]["median"]
        yield f"Launched op by op beside the others it takes {slower:.2f} times as long as the replayed step of `none`."
    elif side and apart(side):
        both, alone = (row["step_ms"]["forward"] + row["step_ms"]["backward"] for row in (side, none))
        yield f"Unconnected devices compute {both / alone:.2f} times as long as one alone."
    if device.spread:
        late = 100 * device.spread * expected_maximum(ranks)
        yield (f"A rank's step strays by {100 * device.spread:.1f} %, so the slowest of {ranks} is expected to take "
               f"{late:.1f} % longer than the mean.")


def steady(row):
    """Whether its steps vary so little that a ratio of them is a result."""
    return row.get("steady", True)


def unpredictable(report):
    """Why there are no predictions; None where there are."""
    rows = {row["strategy"]: row for row in report["rows"]}
    if "none" not in rows or not report.get("link"):
        return "that takes a row of one device, --strategy none, and one of several"
    if not steady(rows["none"]) or not steady(base_row(rows)):
        return "the steps of one device vary too much"
    return None


def predictions(report):
    """(strategy, modelled speed-up, measured one, terms) of each; None, None where it was not measured or varied."""
    rows, ranks = {row["strategy"]: row for row in report["rows"]}, report["link"]["ranks"]
    machine, none = machine_of(report, rows), rows["none"]
    for strategy in STRATEGIES:
        step, row = machine.step(strategy, ranks), rows.get(strategy)
        row = row if row and steady(row) else None
        modelled = ranks * none["step_ms"]["median"] / 1e3 / step.seconds()
        yield (strategy, modelled, row and row["pairs_per_s"] / none["pairs_per_s"],
               row and excess(row, base_row(rows), step))


def markdown(report):
    if unpredictable(report):
        return f"No speed-up is predicted: {unpredictable(report)}.\n"
    rows, link = {row["strategy"]: row for row in report["rows"]}, report["link"]
    device, ranks, (least, *_, most) = machine_of(report, rows).device, link["ranks"], link["all_reduce"]
    lines = [("strategy", "devices", "speed-up, measured", "speed-up, modelled", "measured over modelled", "to blame")]
    for strategy, modelled, measured, terms in predictions(report):
        lines.append((strategy, ranks, "-", f"{modelled:.3f}", "-", "-") if measured is None else (
            strategy, ranks, f"{measured:.3f}", f"{modelled:.3f}", f"{100 * (measured / modelled - 1):+.1f} %",
            f"{blame(terms)}, {terms[blame(terms)]:+.2f} of {sum(terms.values()):+.2f} ms"))
    start = (f"Modelled from the step of `{base_row(rows)['strategy']}` ({phases_of(device, 1)}) and all-reduces of "
             f"{ranks} ranks in this run: {least['bytes'] / 1024:g} KiB in {least['us']:.1f} us, "
             f"{most['bytes'] / MIB:g} MiB at {link['GB_per_s']:.2f} GB/s a rank.")
    end = "To blame: the largest of four terms, which add up to what a step takes longer than the modelled one."
    words = [textwrap.fill(text, 100, break_on_hyphens=False) for text in (" ".join([start, *notes(rows, device, ranks)]), end)]
    return f"{words[0]}\n\n{table(*lines)}\n\n{words[1]}\n"


if __name__ == "__main__":
    try:
        print(markdown(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf8"))), end="")
    except (OSError, ValueError, LookupError, TypeError) as error:
        print(f"predicted.py: {sys.argv[1]}: expected a report of throughput --json: {error}", file=sys.stderr)
        sys.exit(2)
