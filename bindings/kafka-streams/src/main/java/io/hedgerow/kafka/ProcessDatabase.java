package io.hedgerow.kafka;

import io.hedgerow.Hedgerow;
import io.hedgerow.Keyspace;
import io.hedgerow.Options;
import io.hedgerow.SharedHedgerow;
import java.nio.file.Path;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.streams.StreamsConfig;
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
    /** The compression of tables: {@code none}, {@code lz4} or {@code zstd}. */
    static final String COMPRESSION = "hedgerow.compression";

    private static final String OFFSETS = "~offsets";
    /** Task, store, identity. */
    private static final Pattern NAME =
            Pattern.compile("[^.]+\\..+\\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})");

    private final SharedHedgerow share;
    private final String design;

    private ProcessDatabase(SharedHedgerow share, String design) {
        this.share = share;
        this.design = design;
    }

    static ProcessDatabase open(StateStoreContext context) {
        Map<String, Object> configs = context.appConfigs();
        Options options = new Options();
        Object memory = configs.get(MEMORY);
        if (memory != null) {
            options.memoryBudget(Long.parseLong(memory.toString()));
        }
        Object compression = configs.get(COMPRESSION);
        ProcessDatabase database =
                new ProcessDatabase(
                        SharedHedgerow.open(directory(context), options),
                        compression == null ? "" : "compression = " + compression);
        database.dropForgotten();
        return database;
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

    Keyspace keyspace(String name) {
        return database().keyspace(name, "sorted", design);
    }

    /** The committed offsets, positions and states of all stores. */
    Keyspace offsets() {
        return database().keyspace(OFFSETS);
    }

    /**
     * Drops the keyspaces of stores whose markers are gone: Streams wipes the state of a task by
     * deleting its directory.
     */
    private void dropForgotten() {
        for (String name : database().keyspaceNames()) {
            Matcher parts = NAME.matcher(name);
            if (parts.matches() && !StoreIdentity.isLive(offsets(), parts.group(1))) {
                LOG.info("Dropping keyspace {}, whose store was wiped", name);
                drop(name);
                offsets().deletePrefix(StoreIdentity.prefix(parts.group(1)));
            }
        }
    }

    /** Drops a keyspace, unless another store was faster. */
    private void drop(String name) {
        try {
            database().dropKeyspace(name);
        } catch (IllegalArgumentException e) {
            LOG.debug("Keyspace {} is gone", name, e);
        }
    }

    @Override
    public void close() {
        share.close();
    }
}
