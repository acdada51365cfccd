"""Made-up rows of throughput --json, for the tests of bench/predicted.py and bench/report_page.py."""

ENCODER = {"layers": 12, "hidden": 768, "intermediate": 3072, "vocabulary": 30527, "positions": 514, "types": 0}
LINK = {"ranks": 2, "GB_per_s": 5.59, "all_reduce": [{"bytes": 4096, "us": 5.0}, {"bytes": 1048576, "us": 200.0},
                                                     {"bytes": 33554432, "us": 6000.0}]}
ALONE = {"data": 1, "forward": 100, "backward": 200, "optimizer": 40}


def row(strategy, devices, phases, exposed=0, **more):
    median = sum(phases.values())
    rate = 32e3 * devices / median
    return {"strategy": strategy, "devices": devices, "dtype": "f32", "pairs_per_s": rate, "sentences_per_s": 2 * rate,
            "real_tokens_per_s": 900 / 32 * rate, "exposed_ms": exposed, "steps_ms": [median],
            "step_ms": {"median": median, **phases}, **more}


def replayed(made):
    """The steps become graphs, without separate phases."""
    return {**made, "step_ms": {"median": made["step_ms"]["median"], "data": made["step_ms"]["data"]}}


def report(*rows, **more):
    return {"device": "cpu", "threads_per_device": "1", "rounds": 1, "forwards_per_step": "one", "encoder": ENCODER,
            "link": LINK, "rows": list(rows), **more}
