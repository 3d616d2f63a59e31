"""The name of the environment in which a program works, for example ``staging``; most have none."""

import hashlib
import os
import re

ENVIRONMENT = "INCLOAD_ENVIRONMENT"
NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,63})?")


def environment_of_branch() -> str:
    """The environment of a branch deployment of Dagster+, named after its branch; elsewhere there is none."""
    if os.environ.get("DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT") != "1":
        return ""
    branch = os.environ.get("DAGSTER_CLOUD_GIT_BRANCH") or os.environ.get("DAGSTER_CLOUD_DEPLOYMENT_NAME", "")
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", branch).strip("-_") or "branch"
    # without the hash, the branches a/b and a-b would be one environment
    return plain if plain == branch else f"{plain}-{hashlib.sha256(branch.encode()).hexdigest()[:8]}"
