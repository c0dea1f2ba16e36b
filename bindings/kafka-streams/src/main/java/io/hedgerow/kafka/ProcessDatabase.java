package io.hedgerow.kafka;

import io.hedgerow.CorruptionException;
import io.hedgerow.EntryIterator;
import io.hedgerow.Hedgerow;
import io.hedgerow.HedgerowException;
import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import io.hedgerow.Options;
import io.hedgerow.SharedHedgerow;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The database of an application's instance, which all its stores share. It lies beside the
 * application's directory, because Streams deletes what it finds in there.
 */
final class ProcessDatabase implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ProcessDatabase.class);

    /** Bytes of memory for all stores. */
    static final String MEMORY = "hedgerow.memory.bytes";
    /** The directory of the database. */
    static final String DIRECTORY = "hedgerow.dir";
    /**
     * The compression of tables: {@code none}, {@code lz4} or {@code zstd}. With {@code none} the
     * log is not compressed either.
     */
    static final String COMPRESSION = "hedgerow.compression";

    /** The order of keys and the partitioning of a store: {@code hedgerow.layout.<store>}. */
    static final String LAYOUT = "hedgerow.layout.";
    /** Lines of the design of all stores. */
    static final String DESIGN = "hedgerow.design";
    /**
     * The lines that nobody has changed: stores are updated, and asked for keys that filters find.
     */
    private static final String DEFAULT_DESIGN = "policy = tiering:4";

    private static final String OFFSETS = "~offsets";
    /** Task, store, identity; then a segment, or what else a store has. */
    private static final Pattern NAME =
            Pattern.compile("[^.]+\\..+\\.(" + StoreIdentity.PATTERN + ")(?:[.~].*)?");

    /** The nanoseconds of {@link System#nanoTime}; a test sets them. */
    static LongSupplier clock = System::nanoTime;

    private static final long SWEEP_NANOS = TimeUnit.HOURS.toNanos(1);
    /** The state of each database that the stores of a process share. */
    private static final Map<Hedgerow, Shared> SHARED = new WeakHashMap<>();

    private static final class Shared {
        private long sweptAt = clock.getAsLong() - SWEEP_NANOS;
        private final DatabaseStats stats = new DatabaseStats();
        /** The open stores by what the names of their keyspaces begin with. */
        private final Map<String, HedgerowStore> stores = new ConcurrentHashMap<>();
    }

    private final Path directory;
    private final SharedHedgerow share;
    private final Map<String, Object> configs;
    private final Shared shared;

    private ProcessDatabase(
            Path directory, SharedHedgerow share, Map<String, Object> configs, Shared shared) {
        this.directory = directory;
        this.share = share;
        this.configs = configs;
        this.shared = shared;
    }

    static ProcessDatabase open(StateStoreContext context) {
        Map<String, Object> configs = context.appConfigs();
        Options options = new Options();
        Object memory = configs.get(MEMORY);
        if (memory != null) {
            options.memoryBudget(Long.parseLong(memory.toString()));
        }
        boolean compresses = !"none".equals(String.valueOf(configs.get(COMPRESSION)));
        options.set("compress_log", Boolean.toString(compresses));
        ProcessDatabase database = openOrReplace(directory(context), options, configs);
        database.sweep();
        return database;
    }

    /** Opens the database in a directory. One that is damaged gives way to an empty one. */
    private static ProcessDatabase openOrReplace(
            Path directory, Options options, Map<String, Object> configs) {
        // Two threads must not find the same damage: the second one would move the new database.
        synchronized (SHARED) {
            try {
                return open(directory, options, configs);
            } catch (CorruptionException e) {
                setAside(directory, e);
                return open(directory, options, configs);
            }
        }
    }

    private static ProcessDatabase open(
            Path directory, Options options, Map<String, Object> configs) {
        SharedHedgerow share = SharedHedgerow.open(directory, options);
        try {
            Shared shared = SHARED.get(share.database());
            if (shared == null) {
                checkOffsets(share.database());
                shared = new Shared();
                SHARED.put(share.database(), shared);
            }
            return new ProcessDatabase(directory, share, configs, shared);
        } catch (RuntimeException e) {
            share.close();
            throw e;
        }
    }

    /** Reads what all stores need, while none of them is open. It is small. */
    private static void checkOffsets(Hedgerow database) {
        try (EntryIterator all = database.keyspace(OFFSETS).iterate(KeyRange.all())) {
            all.forEachRemaining(it -> {});
        }
    }

    /** Renames a directory. Whether anybody needs the damaged files is for the owner to say. */
    private static void setAside(Path directory, CorruptionException damage) {
        Path aside = null;
        try {
            Path real = directory.toRealPath();
            aside = real.resolveSibling(real.getFileName() + ".damaged-" + System.currentTimeMillis());
            Files.move(real, aside, StandardCopyOption.ATOMIC_MOVE);
            // A link to it stays one.
            Files.createDirectory(real);
        } catch (IOException e) {
            damage.addSuppressed(e);
            throw new ProcessorStateException(
                    "the database in " + directory + " is damaged, and cannot be renamed to " + aside
                            + ": move it away, then all stores are restored",
                    damage);
        }
        LOG.error(
                "The database in {} is damaged: all stores are restored. It is now in {}, which nobody reads or deletes",
                directory,
                aside,
                damage);
    }

    private static Path directory(StateStoreContext context) {
        Map<String, Object> configs = context.appConfigs();
        Object named = configs.get(DIRECTORY);
        if (named != null) {
            return Path.of(named.toString());
        }
        Path task = context.stateDir().toPath().toAbsolutePath();
        String id = String.valueOf(configs.get(StreamsConfig.APPLICATION_ID_CONFIG));
        Path application = task.getParent();
        // A task that lies elsewhere, as in tests, has a database of its own.
        return application != null && application.endsWith(id)
                ? application.resolveSibling(".hedgerow-" + id)
                : task.resolve(".hedgerow");
    }

    Hedgerow database() {
        return share.database();
    }

    /** The directory that paths in the database are relative to. */
    Path base() {
        return directory.toAbsolutePath().normalize();
    }

    /** Opens or creates a keyspace of a store, as its configuration says. */
    Keyspace keyspace(String name, String store) {
        return database().keyspace(name, text(LAYOUT + store, "sorted"), design(store));
    }

    /**
     * The design of a store. Its own lines go before those of all stores, these before the default.
     */
    private String design(String store) {
        Map<String, String> lines = new LinkedHashMap<>();
        addLines(lines, DEFAULT_DESIGN);
        addLines(lines, text(DESIGN, ""));
        addLines(lines, compression(text(COMPRESSION, "")));
        addLines(lines, text(DESIGN + "." + store, ""));
        addLines(lines, compression(text(COMPRESSION + "." + store, "")));
        return String.join("\n", lines.values());
    }

    private static String compression(String name) {
        return name.isEmpty() ? "" : "compression = " + name;
    }

    private static void addLines(Map<String, String> lines, String text) {
        text.lines().filter(it -> !it.isBlank()).forEach(it -> lines.put(it.split("=")[0].trim(), it));
    }

    private String text(String config, String otherwise) {
        Object value = configs.get(config);
        return value == null ? otherwise : value.toString();
    }

    /** The committed offsets, positions and states of all stores. */
    Keyspace offsets() {
        return database().keyspace(OFFSETS);
    }

    /** The statistics of the database, at most a second old. */
    DatabaseStats stats() {
        return shared.stats.refresh(database());
    }

    /**
     * Drops what was forgotten, when the database is opened and then every hour at most: Streams
     * moves tasks away. It fails nobody: what is left is dropped the next time.
     */
    void sweep() {
        synchronized (shared) {
            if (clock.getAsLong() - shared.sweptAt < SWEEP_NANOS) {
                return;
            }
            shared.sweptAt = clock.getAsLong();
        }
        try {
            dropForgotten("");
            forgetRows();
        } catch (HedgerowException e) {
            LOG.warn("Cannot drop the keyspaces of stores that were wiped", e);
        }
    }

    /**
     * Drops the keyspaces of stores whose markers are gone: Streams wipes the state of a task by
     * deleting its directory. Their rows among the offsets go with the next sweep.
     *
     * @param prefix what their names begin with
     */
    void dropForgotten(String prefix) {
        Map<String, Boolean> live = new HashMap<>();
        for (String name : database().keyspaceNames()) {
            Matcher parts = NAME.matcher(name);
            if (!name.startsWith(prefix) || !parts.matches()) {
                continue;
            }
            String identity = parts.group(1);
            if (!live.computeIfAbsent(identity, it -> StoreIdentity.isLive(this, it))) {
                LOG.info("Dropping keyspace {}, whose store was wiped", name);
                drop(name);
            }
        }
    }

    /** Deletes the offsets of stores whose markers are gone: a store may have no keyspace. */
    private void forgetRows() {
        Set<String> identities = new HashSet<>();
        try (EntryIterator all = offsets().iterate(KeyRange.all())) {
            all.forEachRemaining(it -> identities.add(StoreIdentity.of(it.key())));
        }
        identities.removeIf(it -> StoreIdentity.isLive(this, it));
        identities.forEach(it -> offsets().deletePrefix(StoreIdentity.prefix(it)));
    }

    /** Drops a keyspace, unless another store was faster. */
    void drop(String name) {
        try {
            database().dropKeyspace(name);
        } catch (IllegalArgumentException e) {
            LOG.debug("Keyspace {} is gone", name, e);
        }
    }

    // ---- damage ----

    /**
     * Makes an open store known to the others.
     *
     * @param keyspace what the names of its keyspaces begin with
     */
    void add(String keyspace, HedgerowStore store) {
        shared.stores.put(keyspace, store);
    }

    void remove(String keyspace, HedgerowStore store) {
        shared.stores.remove(keyspace, store);
    }

    /**
     * Gives up the state of the store whose damage is in the way of another one's writes. All
     * stores share the memory of memtables: while one of them cannot be flushed, it is full for
     * all. Without its keyspaces the others go on, and Streams restores that store.
     *
     * @return false if the damage is not that of a store
     */
    boolean giveUp(CorruptionException damage) {
        String keyspace = damage.keyspace().orElse("");
        Matcher parts = NAME.matcher(keyspace);
        if (!parts.matches()) {
            return false;
        }
        String prefix = keyspace.substring(0, parts.end(1));
        LOG.error("Keyspace {} is damaged, and dropped: its store is restored", keyspace, damage);
        // In this order: a store that is being opened makes itself known, and then looks whether it
        // is forgotten.
        StoreIdentity.forget(this, parts.group(1));
        HedgerowStore owner = shared.stores.get(prefix);
        if (owner != null) {
            owner.damaged(damage);
        }
        dropForgotten(prefix);
        return true;
    }

    @Override
    public void close() {
        share.close();
    }
}
