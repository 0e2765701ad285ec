"""Model files of version 0.1.0 in the layout of today: these held attributes of the estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["of_early_versions"]


def of_early_versions(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document of a file with its inputs and results where they are kept today.

    Nothing is decoded here: what else an early file holds is left where it is.
    """
    old = content.get("fitted")
    if not old:
        return content
    problem = old["_problem" if "_problem" in old else "_training"]["fields"]
    experiments, plan = problem["experiments"]["fields"], old["_plan"]["fields"]
    costs = [cost["fields"] for cost in plan["costs"]["$tuple"]]
    data = {
        "X": problem["X"],
        "y": problem["labels"],
        "flat": problem["flat"],
        "sample_weight": problem["weights"],
        "groups": problem["groups"],
        "names": old.get("feature_names_in_"),
        "frames": old.get("_frames"),
    }
    found = {
        "experiments": {name: part["fields"] for name, part in experiments.items()},
        "seed": problem["seed"],
        "basis": problem["basis"],
        "alphas": problem["alphas"],
        "plan": {
            "path": plan["path"],
            "asked": plan["asked"],
            "costs": [[cost["path"], cost["seconds"], cost["bytes"]] for cost in costs],
            "facts": plan["facts"],
        },
        "results": old["cv_results_"],
        "index": old["best_index_"],
        "alpha": old["alpha_"],
        "score": old["best_score_"],
        "kernel": old["kernel_"],
        "basis_rows": old["basis_indices_"],
        "coefficients": old["_dual_coef"],
        "of_columns": old["_linear_coef"],
        "unpenalised": old["_intercept"],
    }
    return {**content, "data": data, "found": found}
