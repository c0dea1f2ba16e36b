"""The jobs: tasks of Celery, and functions that RQ calls by their names."""

import os

from celery import Celery

app = Celery("jobs", broker=os.environ["REDIS_URL"] + "/1", backend=os.environ["REDIS_URL"] + "/2")
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=4,
    result_expires=3600,
)
tries = {}


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def second_time(self, name):
    tries[name] = tries.get(name, 0) + 1
    if tries[name] < 2:
        raise self.retry(countdown=0)
    return tries[name]


def triple(x):
    return 3 * x


def fails(x):
    raise ValueError(f"no {x}")
