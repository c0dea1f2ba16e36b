"""Sends jobs, has workers run them, and compares every result."""

import os
import subprocess
import sys

import redis
from celery import chain, chord, group
from rq import Queue, SimpleWorker
from rq.job import JobStatus

import jobs

checks = 0


def check(found, expected):
    global checks
    assert found == expected, f"expected {expected}, found {found}"
    checks += 1


# Celery, with a worker of its own.
command = [sys.executable, "-m", "celery", "-A", "jobs", "worker", "--pool", "solo", "--loglevel", "ERROR"]
worker = subprocess.Popen([*command, "--without-gossip", "--without-mingle"])
try:
    results = [jobs.add.delay(i, i) for i in range(100)]
    for i, result in enumerate(results):
        check(result.get(timeout=60), 2 * i)
    check(chain(jobs.add.s(1, 2), jobs.add.s(3), jobs.add.s(4))().get(timeout=60), 10)
    check(group(jobs.add.s(i, 1) for i in range(20))().get(timeout=60), list(range(1, 21)))
    check(chord((jobs.add.s(i, i) for i in range(20)), jobs.total.s())().get(timeout=60), 380)
    check(jobs.second_time.delay("a").get(timeout=60), 2)
    check(jobs.add.apply_async((2, 3), countdown=1).get(timeout=60), 5)
    stats = jobs.app.control.inspect(timeout=5).stats()
    check(len(stats), 1)
    finished = list(stats.values())[0]["total"]
    check(finished["jobs.add"], 100 + 3 + 20 + 20 + 1)
finally:
    worker.terminate()
    worker.wait(timeout=30)

# RQ, with a worker in this process.
connection = redis.Redis.from_url(os.environ["REDIS_URL"])
queue = Queue("numbers", connection=connection)
sent = [queue.enqueue(jobs.triple, i) for i in range(50)]
wrong = queue.enqueue(jobs.fails, 1)
last = queue.enqueue(jobs.triple, 100, depends_on=sent[-1])
check(queue.count, 51)
SimpleWorker([queue], connection=connection).work(burst=True, logging_level="CRITICAL")
for i, job in enumerate(sent):
    check(job.return_value(refresh=True), 3 * i)
check(last.return_value(refresh=True), 300)
check(wrong.get_status(refresh=True), JobStatus.FAILED)
check(queue.failed_job_registry.count, 1)
check(queue.finished_job_registry.count, 51)
check(queue.count, 0)
print(f"Celery and RQ: {checks} checks")
