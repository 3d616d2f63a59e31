"""The Java that Spark runs on: found, or its absence said in one line."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from resources.failures import not_installed

OLDEST = 17
"""The oldest Java that Spark 4.2 runs on."""


def java_home() -> Path:
    """The home folder of a Java that Spark can use: ``JAVA_HOME`` if it is new enough, else the one on ``PATH``.

    Raises:
        SparkUnavailable: Neither is there, or both are too old; the message says what was found and how to get one.

    Example:
        >>> (java_home() / "bin" / "java").exists()
        True
    """
    found = []
    configured, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if configured:
        java = Path(configured) / "bin" / "java"
        home, verdict = _ask(java) if java.is_file() else (None, "has no bin/java")
        if home:
            return home
        found.append(f"JAVA_HOME={configured} {verdict}")
    if on_path:
        home, verdict = _ask(Path(on_path))
        if home:
            return home
        found.append(f"{on_path} {verdict}")
    raise not_installed(
        f"Spark needs Java {OLDEST} or newer; found: {', '.join(found) or 'none (JAVA_HOME unset, no java on PATH)'}",
        remedy=f"install one (Debian, Ubuntu: `sudo apt install openjdk-{OLDEST}-jre-headless`; macOS: "
        f"`brew install openjdk@{OLDEST}`) or point JAVA_HOME at one",
    )


def _ask(java: Path) -> tuple[Path | None, str]:
    """The home of a Java that is new enough, else None and what is wrong with it."""
    try:
        # Java itself is asked for its home: the file on PATH may be a link, or a version manager's script
        asked = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"does not run ({type(error).__name__})"
    told = asked.stderr + asked.stdout
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if asked.returncode != 0 or not version:
        return None, "does not run"
    if int(version.group(1)) < OLDEST:
        return None, f"is Java {version.group(1)}"
    home = re.search(r"^\s*java\.home = (.+)$", told, re.MULTILINE)
    return (Path(home.group(1).strip()), "") if home else (None, "does not say where its home is")
