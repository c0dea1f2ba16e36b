"""The numbers of a server under load: as Prometheus reads them, and as a browser shows them."""

import json
import os
import pathlib
import re
import sys
import threading
import time
import urllib.error
import urllib.request

import redis
from prometheus_client.parser import text_string_to_metric_families
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

port, metrics, pictures = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
base = f"http://127.0.0.1:{metrics}"
r = redis.Redis(port=port)
r.config_set("slowlog-log-slower-than", 1000000)

pipe = r.pipeline(transaction=False)
for i in range(3000):
    pipe.set(f"key{i}", "v" * 100)
    pipe.hset(f"hash{i % 50}", f"field{i}", i)
    pipe.zadd("board", {f"member{i}": i})
pipe.execute()
markup = "<b onload=x>&quot;</b>"
r.config_set("slowlog-log-slower-than", 2000)
r.eval("local n = 0 for i = 1, 3000000 do n = n + 1 end return n", 0, markup)
r.config_set("slowlog-log-slower-than", 1000000)
try:
    r.lpush("key1", "x")
except redis.ResponseError:
    pass
else:
    raise AssertionError("expected WRONGTYPE")


def read(path):
    with urllib.request.urlopen(base + path, timeout=20) as answer:
        assert answer.status == 200
        return answer.headers["content-type"], answer.read().decode()


# ---- Prometheus ----
kind, text = read("/metrics")
assert kind == "text/plain; version=0.0.4", kind
families = {it.name: it for it in text_string_to_metric_families(text)}
# Each family stands once, with its kind and a text.
assert len(families) == text.count("# TYPE "), "a family stands twice"
assert all(it.documentation and it.type in ("counter", "gauge", "histogram") for it in families.values())


def value(family, sample, **labels):
    found = [it.value for it in families[family].samples if it.name == sample and labels.items() <= it.labels.items()]
    assert len(found) == 1, (family, sample, labels, found)
    return found[0]


durations = "hedgerow_server_command_duration_seconds"
assert value(durations, durations + "_count", command="set") == 3000
assert value(durations, durations + "_bucket", command="set", le="+Inf") == 3000
assert value(durations, durations + "_sum", command="set") > 0
for command in ("set", "hset", "zadd", "eval"):
    buckets = [it for it in families[durations].samples if it.name.endswith("_bucket") and it.labels["command"] == command]
    assert len(buckets) == 17 and [it.value for it in buckets] == sorted(it.value for it in buckets)
assert value("hedgerow_server_command_errors", "hedgerow_server_command_errors_total", command="lpush") == 1
assert value("hedgerow_server_keys", "hedgerow_server_keys", db="0") == r.dbsize() == 3051
assert value("hedgerow_server_clients", "hedgerow_server_clients") == 1
assert value("hedgerow_puts", "hedgerow_puts_total") > 0
assert value("hedgerow_memory_bytes", "hedgerow_memory_bytes", part="memtables") > 0

# Everything that the dashboard and the rules name is there; the link to a primary at replicas
# alone, how far they are behind at primaries of one.
exported = {sample.name for family in families.values() for sample in family.samples}
exported |= {"hedgerow_server_primary_link_silent_seconds", "hedgerow_server_replica_lag_operations"}
packaging = pathlib.Path(__file__).parents[3] / "packaging" / "monitoring"
json.loads((packaging / "grafana.json").read_text())
for file in packaging.iterdir():
    named = set(re.findall("hedgerow_[a-z_0-9]+", file.read_text())) - {"hedgerow_master_link_error"}
    assert len(named) > 8 and not named - exported, (file.name, named - exported)

# ---- the data of the page ----
kind, text = read("/status.json")
assert kind == "application/json"
status = json.loads(text)
assert {it["name"]: it["calls"] for it in status["commands"]}["set"] == 3000
assert markup in [it["command"] for it in status["slow"]][0]
try:
    read("/other")
except urllib.error.HTTPError as error:
    assert error.code == 404
else:
    raise AssertionError("expected 404")

# ---- the page, under load ----
if not os.path.exists("/usr/bin/chromedriver"):
    print("skipped: the page, because there is no chromium-driver")
    sys.exit()
stop = threading.Event()


def load():
    own = redis.Redis(port=port)
    while not stop.is_set():
        pipe = own.pipeline(transaction=False)
        for i in range(200):
            pipe.get(f"key{i}")
            pipe.incr("n")
        pipe.execute()


loader = threading.Thread(target=load)
loader.start()
try:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        for name, width, height in (("wide", 1400, 1300), ("narrow", 390, 2600)):
            browser.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
            )
            browser.get(base + "/")
            until = time.monotonic() + 60
            while time.monotonic() < until:
                points = browser.execute_script("return document.getElementById('rate').getAttribute('points').split(' ').length")
                if points >= 4:
                    break
                time.sleep(0.2)
            cells = browser.execute_script("return [...document.querySelectorAll('td')].map(it => it.textContent)")
            body = browser.execute_script("return document.body.innerText")
            assert "get" in cells and "incrby" in cells and "set" in cells, cells
            assert any(it.startswith("≤") for it in cells), "no latency is shown"
            assert any(markup in it for it in cells), "the slow command is not shown as text"
            assert "no answer" not in body and "NaN" not in body and "undefined" not in body, body
            rates = browser.execute_script(
                "return [...document.querySelectorAll('#commands tr')].slice(1)"
                ".map(it => [it.children[0].textContent, it.children[1].textContent])"
            )
            assert int(dict(rates)["get"].replace(",", "")) > 100, rates
            # Nothing but tables, each in a box of its own, may be wider than the screen.
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width, name
            browser.save_screenshot(f"{pictures}/{name}.png")
        errors = [it for it in browser.get_log("browser") if it["level"] == "SEVERE"]
        assert not errors, errors
    finally:
        browser.quit()
finally:
    stop.set()
    loader.join()
print("metrics and page: ok")
