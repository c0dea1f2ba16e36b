package io.hedgerow;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;

/** The options for opening a database. For one thread at a time; a database keeps a copy. */
public final class Options {
    private final Map<String, String> values = new LinkedHashMap<>();
    Executor executor = ForkJoinPool.commonPool();

    /** The defaults: a budget of 256 MiB, created if missing. */
    public Options() {}

    /**
     * The memory in bytes that all keyspaces of the database share: caches, indexes, filters,
     * memtables. 256 MiB by default, at least 1 MiB.
     */
    public Options memoryBudget(long bytes) {
        return set("memory_budget", Long.toString(bytes));
    }

    /** True, the default, to create the database if it does not exist. */
    public Options createIfMissing(boolean create) {
        return set("create_if_missing", Boolean.toString(create));
    }

    /** True to open without the lock, beside a writer, and change nothing. */
    public Options readOnly(boolean readOnly) {
        return set("read_only", Boolean.toString(readOnly));
    }

    /** The number of threads that flush and merge; two more than processors by default. */
    public Options backgroundThreads(int threads) {
        return set("background_threads", Integer.toString(threads));
    }

    /**
     * The number of threads for asynchronous calls; with 0, the default, the background threads.
     */
    public Options workers(int workers) {
        return set("workers", Integer.toString(workers));
    }

    /**
     * An option by its name, as text: {@code memory_budget=64MiB}, {@code level_paths},
     * {@code log_bytes_max}, {@code compress_log}, {@code io_bytes_per_second}, {@code read_mode}
     * and more. It is checked when the database is opened.
     */
    public Options set(String name, String value) {
        values.put(name, value);
        return this;
    }

    /**
     * Runs what depends on the future of an asynchronous call; {@link ForkJoinPool#commonPool} by
     * default. With {@code Runnable::run} it runs on the one thread that delivers all results, and
     * must not wait for another one.
     */
    public Options executor(Executor executor) {
        this.executor = executor;
        return this;
    }

    byte[] pack() {
        Packer packed = new Packer(64);
        values.forEach((name, value) -> packed.add(name).add(value));
        return packed.toArray();
    }
}
