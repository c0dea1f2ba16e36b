package io.hedgerow.kafka.bench;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The parts of the measurement, with the settings that differ between them. */
enum Part {
    /** Records restored and time until RUNNING after {@code kill -9}. */
    RESTART(Map.of("commit_ms", "30000")),
    /** Resident memory and threads of many stores, which share the keys. */
    MEMORY(Map.of("stores", "5", "partitions", "30", "budget_mib", "64", "heap_mib", "1024")),
    /** The rate of an aggregation whose state has room in memory. */
    INSIDE(Map.of("budget_mib", "512")),
    /**
     * The same with a state several times the budget, in a control group that has no room for it
     * either.
     */
    OUTSIDE(Map.of("partitions", "1", "budget_mib", "64", "value_bytes", "1000", "limit_mib", "704")),
    /** The time of commits, of which there are many. */
    COMMITS(Map.of("commit_ms", "50", "timed_commits", "1"));

    private static final Settings COMMON =
            Settings.parse(
                    "keys=1000000",
                    "value_bytes=100",
                    "stores=1",
                    "partitions=4",
                    "budget_mib=256",
                    "heap_mib=384",
                    "limit_mib=0",
                    "commit_ms=1000",
                    "record_cache_mib=0",
                    "stream_threads=1",
                    "static_member=1",
                    "changelog=1",
                    "design=",
                    "timed_commits=0");
    /** The records behind the last commit when the application is killed. */
    private static final long UNCOMMITTED = 10_000;

    private final Map<String, String> own;

    Part(Map<String, String> own) {
        this.own = own;
    }

    static Part of(String label) {
        return Arrays.stream(values())
                .filter(it -> it.label().equals(label))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(
                        "expected a part among restart, memory, inside, outside and commits, found "
                                + label));
    }

    String label() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** The engines that it compares. Memory is measured above that of the stores in memory. */
    List<Engine> engines() {
        return this == MEMORY
                ? List.of(Engine.values())
                : List.of(Engine.HEDGEROW, Engine.ROCKSDB, Engine.ROCKSDB_BOUNDED);
    }

    /** The settings of the part, with those of the command line. */
    Settings settings(Map<String, String> given) {
        Settings all = COMMON.with(own).with(given);
        long keys = all.number("keys") / (this == MEMORY ? all.number("stores") : 1);
        long updates = this == RESTART ? UNCOMMITTED : this == OUTSIDE ? keys / 2 : keys;
        return all.with("updates", updates).with(given).with("keys", keys).with("workload", label());
    }
}
