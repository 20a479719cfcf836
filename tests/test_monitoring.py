"""Grafana's dashboard and Prometheus' alerts: their expressions are valid, name metrics that the daemon really has, and fire."""
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT

PLACE = ROOT / "daemon/telemetry/monitoring"
PROMTOOL = shutil.which("promtool", path=f"{os.environ['PATH']}:{ROOT}/build/tools")
needs_promtool = pytest.mark.skipif(not PROMTOOL, reason="needs promtool of Debian's prometheus: tests/promtool")
NAME = re.compile(r"\breduced_\w+")


def promtool(*args, **kw):
    return subprocess.run([PROMTOOL, *map(str, args)], capture_output=True, text=True, timeout=60, **kw)


def dashboard():
    return json.loads(subprocess.run([PLACE.parent / "dashboard.py"], capture_output=True, check=True).stdout)


def expressions():
    """The dashboard's, as Prometheus gets them."""
    texts = [t["expr"] for p in dashboard()["panels"] for t in p["targets"]]
    return [t.replace("$__rate_interval", "5m").replace("$instance", ".*") for t in texts]


def known(text):
    """The names of all samples in a text of metrics, and of those that only a daemon with a GPU has."""
    source = (ROOT / "daemon/telemetry/metrics.c").read_text()
    return {line.split("{")[0].split()[0] for line in text.splitlines() if not line.startswith("#")} | {
        "reduced_" + n for n in re.findall(r'"(device_\w+|pieces_total|requests_total|certificate_end_seconds)"', source)}


def test_names_are_the_daemons(start, ctl):
    daemon = start()
    with daemon.connect() as c:
        c.reduce("sum", "f32", bytes(8))
    names = known(ctl("metrics", url=daemon.url).stdout.decode())
    rules = re.sub(r"#.*", "", (PLACE / "alerts.yml").read_text())
    for text in (*expressions(), *re.findall(r"expr: (.*?)\n +(?:for|labels):", rules, re.S)):
        assert set(NAME.findall(text)) <= names, text


def test_the_dashboard_is_of_core_panels(start):
    d = dashboard()
    assert d["schemaVersion"] >= 36 and d["uid"] == "reduced" and {p["type"] for p in d["panels"]} <= {"timeseries", "stat"}
    assert all(t["datasource"]["uid"] == "${DS_PROMETHEUS}" for p in d["panels"] for t in p["targets"]) and d["__inputs"][0]["name"] == "DS_PROMETHEUS"
    places = [(x, y) for p in d["panels"] for g in [p["gridPos"]] for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    assert len(places) == len(set(places)) and max(x for x, _ in places) < 24, "panels overlap"


@needs_promtool
def test_promtool_accepts_rules_and_metrics(scratch, start, ctl):
    daemon = start()
    with daemon.connect() as c:
        c.reduce("sum", "f32", bytes(8))
    done = promtool("check", "metrics", input=ctl("metrics", url=daemon.url).stdout.decode())
    assert done.returncode == 0, done.stderr
    rules = [f"      - {{record: 'x:{i}', expr: {json.dumps(e)}}}" for i, e in enumerate(expressions())]
    (scratch / "panels.yml").write_text("groups:\n  - name: panels\n    rules:\n" + "\n".join(rules) + "\n")
    for f in (PLACE / "alerts.yml", scratch / "panels.yml"):
        done = promtool("check", "rules", f)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_accepts_the_settings_of_the_pages(scratch):
    text, = re.findall(r"^```yaml\n(.*?)^```", (ROOT / ".docs/administrators.md").read_text(), re.M | re.S)
    (scratch / "prometheus.yml").write_text(text)
    done = promtool("check", "config", scratch / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_each_alert_fires(scratch):
    done = promtool("test", "rules", PLACE / "alerts_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = re.findall(r"- alert: (\w+)", (PLACE / "alerts.yml").read_text())
    tested = re.findall(r"alertname: (\w+)", (PLACE / "alerts_test.yml").read_text())
    assert set(alerts) == set(tested) and len(alerts) == 10
