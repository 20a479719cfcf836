#!/usr/bin/python3
"""Print Grafana's dashboard: a row of numbers, then rows of three graphs. `make install` writes it to a file."""
import json

SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
OF = '{instance=~"$instance"}'
YES_NO = [{"type": "value", "options": {"0": {"text": "no", "color": "red"}, "1": {"text": "yes", "color": "green"}}}]


def rate(metric, labels=""):
    return f'rate({metric}{{instance=~"$instance"{labels}}}[$__rate_interval])'


def sum_rate(metric, by="", labels=""):
    return f"sum{f' by ({by})' if by else ''} ({rate(metric, labels)})" if by else f"sum({rate(metric, labels)})"


def quantile(q, by, labels):
    return f"histogram_quantile({q}, {sum_rate('reduced_request_seconds_bucket', by, labels)})"


REQUESTS, PIECES = "reduced_requests_total", "reduced_pieces_total"
BY_OP = sum_rate(REQUESTS, "op")
# title, what it is, its unit (of Grafana), [(expression, name of the line)], further defaults
NUMBERS = [
    ("Healthy", "The last check, a real reduction, gave the right answer.", "short", [("reduced_healthy" + OF, "{{instance}}")], {"mappings": YES_NO}),
    ("Up", "Since the daemon started.", "s", [("reduced_uptime_seconds" + OF, "{{instance}}")], {}),
    ("Sessions", "Open sessions.", "short", [("reduced_sessions" + OF, "{{instance}}")], {}),
    ("Requests", "Requests with a value a second: pieces of large arrays are left out.", "reqps",
     [(f"{sum_rate(REQUESTS)} - ({sum_rate(PIECES)} or vector(0))", "")], {}),
    ("Data", "Elements and states a second.", "Bps", [(sum_rate("reduced_data_bytes_total"), "")], {}),
    ("Errors", "Error replies a second.", "reqps", [(sum_rate("reduced_errors_total"), "")], {}),
]
SHARE = {"min": 0, "max": 1}
GRAPHS = [
    ("Requests by operation", "", "reqps", [(f"{BY_OP} - ({sum_rate(PIECES, 'op')} or 0 * {BY_OP})", "{{op}}")], {}),
    ("Data by path", "", "Bps", [(sum_rate("reduced_data_bytes_total", "path"), "{{path}}")], {}),
    ("Errors by kind", "", "reqps", [(sum_rate("reduced_errors_total", "error") + " > 0", "{{error}}")], {}),
    ("Times of requests", "Median and 99 % of those that succeeded.", "s",
     [(quantile(q, "le", ',stage="total"'), name) for q, name in ((0.5, "median"), (0.99, "99 %"))], {}),
    ("99 % by stage", "Until the engine took them up, copying, computing.", "s", [(quantile(0.99, "le, stage", ',stage!="total"'), "{{stage}}")], {}),
    ("Engine", "Share of the time with a task at the device or the workers.", "percentunit",
     [(rate("reduced_engine_busy_seconds_total"), "{{instance}}")], SHARE),
    ("Queues", "Requests under way and waiting.", "short", [("reduced_queue_length" + OF, "{{queue}}")], {}),
    ("Pools", "Share of the cap.", "percentunit", [(f"reduced_pool_bytes{OF} / (reduced_pool_cap_bytes{OF} > 0)", "{{pool}}")], {"min": 0}),
    ("Users: engine", "Seconds of copying and computing a second.", "s", [(rate("reduced_user_engine_seconds_total"), "uid {{uid}}")], {}),
    ("Users: data", "", "Bps", [(rate("reduced_user_data_bytes_total"), "uid {{uid}}")], {}),
    ("Claimed by clients", "Data reduced in their own processes, as they say: not checked.", "Bps", [(sum_rate("reduced_claimed_bytes_total"), "")], {}),
    ("GPU memory", "As the driver reports it; empty without NVML.", "bytes", [("reduced_device_memory_bytes" + OF, "{{kind}}")], {}),
    ("GPU load", "", "percentunit", [("reduced_device_busy_ratio" + OF, "{{instance}}")], SHARE),
    ("GPU temperature", "", "celsius", [("reduced_device_temperature_celsius" + OF, "{{instance}}")], {}),
    ("GPU power", "", "watt", [("reduced_device_power_watts" + OF, "{{instance}}")], {}),
]
OPTIONS = {"stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"},
           "timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}}


def panel(number, kind, place, title, description, unit, lines, more):
    targets = [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expr, "legendFormat": name} for i, (expr, name) in enumerate(lines)]
    return {"id": number, "type": kind, "title": title, "description": description, "datasource": SOURCE, "gridPos": place,
            "fieldConfig": {"defaults": {"unit": unit, **more}, "overrides": []}, "options": OPTIONS[kind], "targets": targets}


def panels():
    numbers = [panel(1 + i, "stat", {"x": 4 * i, "y": 0, "w": 4, "h": 4}, *of) for i, of in enumerate(NUMBERS)]
    return numbers + [panel(1 + len(numbers) + i, "timeseries", {"x": i % 3 * 8, "y": 4 + i // 3 * 8, "w": 8, "h": 8}, *of) for i, of in enumerate(GRAPHS)]


def dashboard():
    query = "label_values(reduced_info, instance)"
    instance = {"name": "instance", "label": "Instance", "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": "A"},
                "definition": query, "refresh": 2, "includeAll": True, "multi": True, "current": {}, "sort": 1}
    needs = [("grafana", "grafana", "Grafana", "10.0.0"), ("datasource", "prometheus", "Prometheus", "1.0.0"),
             ("panel", "timeseries", "Time series", ""), ("panel", "stat", "Stat", "")]
    return {
        "__inputs": [{"name": "DS_PROMETHEUS", "label": "Prometheus", "description": "", "type": "datasource", "pluginId": "prometheus",
                      "pluginName": "Prometheus"}],
        "__requires": [dict(zip(("type", "id", "name", "version"), n)) for n in needs],
        "title": "reduced", "uid": "reduced", "description": "The reduced daemon: requests, times, engine, users, GPU.", "tags": ["reduced"],
        "schemaVersion": 38, "version": 1, "editable": True, "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "",
        "annotations": {"list": []}, "links": [], "templating": {"list": [instance]}, "panels": panels()}


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
