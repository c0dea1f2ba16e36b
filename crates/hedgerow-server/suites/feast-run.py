"""A feature store: features of drivers are written, and read one by one and many at once."""

import datetime
import pathlib
import sys
import warnings

import pandas

warnings.filterwarnings("ignore")
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, RepoConfig
from feast.types import Float32, Int64, String

DRIVERS = 2000
now = datetime.datetime.now(datetime.timezone.utc)


def rows(version):
    return pandas.DataFrame(
        {
            "driver": range(DRIVERS),
            "trips": [version * 1000 + i for i in range(DRIVERS)],
            "rating": [i / 4 for i in range(DRIVERS)],
            "city": [f"city {i % 7}" for i in range(DRIVERS)],
            "event_timestamp": now + datetime.timedelta(seconds=version),
        }
    )


rows(0).to_parquet("drivers.parquet")
store = FeatureStore(
    config=RepoConfig(
        project="suite",
        provider="local",
        registry=str(pathlib.Path("registry.db").absolute()),
        online_store={"type": "redis", "connection_string": f"127.0.0.1:{sys.argv[1]}"},
        offline_store={"type": "file"},
        entity_key_serialization_version=3,
    )
)
driver = Entity(name="driver", join_keys=["driver"])
view = FeatureView(
    name="drivers",
    entities=[driver],
    ttl=datetime.timedelta(days=1),
    schema=[Field(name="trips", dtype=Int64), Field(name="rating", dtype=Float32), Field(name="city", dtype=String)],
    source=FileSource(path="drivers.parquet", timestamp_field="event_timestamp"),
)
store.apply([driver, view])
names = ["drivers:trips", "drivers:rating", "drivers:city"]
checks = 0
# From the source first, then newer rows past it.
store.materialize(now - datetime.timedelta(hours=1), now + datetime.timedelta(hours=1))
for version in [0, 1, 2]:
    if version > 0:
        store.write_to_online_store("drivers", rows(version))
    ids = list(range(0, DRIVERS, 7)) + [DRIVERS + 5]
    found = store.get_online_features(names, [{"driver": i} for i in ids]).to_dict()
    for place, i in enumerate(ids):
        row = (found["trips"][place], found["rating"][place], found["city"][place])
        expected = (version * 1000 + i, i / 4, f"city {i % 7}") if i < DRIVERS else (None, None, None)
        assert row == expected, f"driver {i}: expected {expected}, found {row}"
        checks += 1
store.teardown()
print(f"Feast's online store: {checks} checks")
