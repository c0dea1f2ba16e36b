package io.hedgerow.kafka;

import static java.nio.file.StandardOpenOption.TRUNCATE_EXISTING;
import static java.nio.file.StandardOpenOption.WRITE;

import io.hedgerow.Batch;
import io.hedgerow.Keyspace;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.internals.PositionSerde;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which state in the database a store has, and how far that state is.
 *
 * <p>A file in the task's directory holds an identity made at random. Streams wipes a store by
 * deleting that directory; then the next open makes another identity, so the store is empty.
 * Offsets, position and status are under the identity in a keyspace of all stores:
 *
 * <pre>
 * identity 0 'o' topic-partition    the committed offset, 8 bytes
 * identity 0 'position'             the position
 * identity 0 'status'               1 while the store is open
 * identity 0 'marker'               the path of the file, from the directory of the database
 * identity 0 'format'               how the data is to be read
 * </pre>
 *
 * A store of another format takes another identity: Streams restores it from its changelog, whose
 * records it converts.
 */
final class StoreIdentity {
    private static final Logger LOG = LoggerFactory.getLogger(StoreIdentity.class);

    /** An identity, as a regular expression. */
    static final String PATTERN = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";

    /** A configuration of Streams 4.4. */
    private static final String TRANSACTIONAL = "enable.transactional.statestores";

    private static final int IDENTITY_BYTES = 36;
    private static final String FOLDER = "hedgerow";
    private static final byte[] OPEN = {1};
    private static final byte[] CLOSED = {0};

    private final ProcessDatabase database;
    private final Keyspace offsets;
    private final String store;
    private final String task;
    private final Path marker;
    /** The store is new, although there was one before. */
    private final boolean wasEmptied;
    private final String identity;

    private StoreIdentity(ProcessDatabase database, StateStoreContext context, String store) {
        this.database = database;
        this.store = store;
        task = context.taskId().toString();
        Path directory = context.stateDir().toPath().toAbsolutePath();
        marker = directory.resolve(FOLDER).resolve(store);
        boolean existed = Files.exists(marker);
        identity = read(marker);
        offsets = database.offsets();
        wasEmptied = existed && value("status") == null;
    }

    /**
     * Finds the state of a store, or makes an empty one, and marks it as open.
     *
     * @param format how the data is to be read
     * @throws TaskCorruptedException if it was not closed under exactly-once: it may have writes
     *     that were never committed. A global store has none: Streams fills it with committed
     *     records
     */
    static StoreIdentity open(
            ProcessDatabase database, StateStoreContext context, String store, String format) {
        StoreIdentity identity = new StoreIdentity(database, context, store);
        if (identity.hasOtherFormat(format)) {
            identity.forget();
            identity = new StoreIdentity(database, context, store);
        }
        boolean exactlyOnce = isExactlyOnce(context.appConfigs());
        byte[] status = identity.value("status");
        if (exactlyOnce && !HedgerowStore.isGlobal(context) && Arrays.equals(status, OPEN)) {
            throw new TaskCorruptedException(
                    Set.of(context.taskId()),
                    new ProcessorStateException(
                            "expected store " + store + " to be closed before it is opened again"));
        }
        identity.begin(format);
        if (status == null) {
            database.dropForgotten(identity.task + "." + store + ".");
        }
        return identity;
    }

    /**
     * Returns true under exactly-once.
     *
     * @throws ConfigException if Streams 4.4 is to leave it to the store to undo the writes of a
     *     transaction that was aborted
     */
    static boolean isExactlyOnce(Map<String, Object> configs) {
        if (!StreamsConfig.EXACTLY_ONCE_V2.equals(
                configs.get(StreamsConfig.PROCESSING_GUARANTEE_CONFIG))) {
            return false;
        }
        if (Boolean.parseBoolean(String.valueOf(configs.get(TRANSACTIONAL)))) {
            throw new ConfigException(
                    TRANSACTIONAL, true, "expected false under exactly-once with stores on Hedgerow");
        }
        return true;
    }

    /** Returns true if there is data of another format, or of one that was not noted. */
    private boolean hasOtherFormat(String format) {
        byte[] found = value("format");
        if (value("status") == null || Arrays.equals(found, utf8(format))) {
            return false;
        }
        LOG.warn(
                "Store {} of task {} has the format '{}', expected '{}': it is restored",
                store,
                task,
                found == null ? "unknown" : new String(found, StandardCharsets.UTF_8),
                format);
        return true;
    }

    /** Marks the store as open. The path is there before any keyspace of the store is. */
    private void begin(String format) {
        database.database()
                .batch()
                .put(offsets, key("marker"), utf8(path().toString()))
                .put(offsets, key("format"), utf8(format))
                .put(offsets, key("status"), OPEN)
                .commit();
    }

    /**
     * The path of the file. It is relative, because state directories are moved, and mounted
     * elsewhere; but not if that leads to another file, as {@code ..} behind a link may.
     */
    private Path path() {
        Path relative = database.base().relativize(marker.normalize());
        try {
            return Files.isSameFile(resolve(database, relative.toString()), marker)
                    ? relative
                    : marker;
        } catch (IOException e) {
            return marker;
        }
    }

    /** The file of a path; an absolute one stays as it is. */
    private static Path resolve(ProcessDatabase database, String path) {
        Path file = Path.of(path);
        return file.isAbsolute() ? file : database.base().resolve(file).normalize();
    }

    /**
     * Reads the identity, or makes one. The file is empty for a store that was given up, and may be
     * so behind a crash of the machine.
     */
    private static String read(Path marker) {
        try {
            String found = Files.exists(marker) ? text(marker) : "";
            if (found.matches(PATTERN)) {
                return found;
            }
            String identity = UUID.randomUUID().toString();
            Files.createDirectories(marker.getParent());
            Files.writeString(marker, identity);
            return identity;
        } catch (IOException e) {
            throw new ProcessorStateException("cannot read the identity of a store in " + marker, e);
        }
    }

    private static String text(Path marker) throws IOException {
        return Files.readString(marker, StandardCharsets.ISO_8859_1).trim();
    }

    /** Returns true if the file of a store still has this identity, or cannot be read now. */
    static boolean isLive(ProcessDatabase database, String identity) {
        Path marker = marker(database, identity);
        try {
            return marker != null && text(marker).equals(identity);
        } catch (NoSuchFileException e) {
            return false;
        } catch (IOException e) {
            LOG.warn("Cannot read a file of identity {}, whose store is kept", identity, e);
            return true;
        }
    }

    /** The file of a store, which may have another identity now; null if no row names it. */
    private static Path marker(ProcessDatabase database, String identity) {
        byte[] path = database.offsets().get(utf8(identity + "\0marker"));
        return path == null
                ? null
                : resolve(database, new String(path, StandardCharsets.UTF_8));
    }

    /** Makes the next open of any store start with an empty one. */
    static void forget(ProcessDatabase database, String identity) {
        if (isLive(database, identity)) {
            empty(marker(database, identity));
        }
    }

    /**
     * Returns true if offsets from outside may be those of this store: its state was not given up,
     * and the task has no stores that are not ours.
     */
    boolean takesOffsets() {
        try (Stream<Path> others = Files.list(marker.getParent().getParent())) {
            return !wasEmptied
                    && others.allMatch(it -> Files.isRegularFile(it) || it.endsWith(FOLDER));
        } catch (IOException e) {
            throw new ProcessorStateException("cannot list the directory of task " + task, e);
        }
    }

    /** Returns true if nobody has made the next open start with an empty store. */
    boolean isLive() {
        return isLive(database, identity);
    }

    /** Makes the next open start with an empty store. */
    void forget() {
        empty(marker);
    }

    /** Takes the identity out of a file, which stays: it says that there was a store. */
    private static void empty(Path marker) {
        try {
            Files.newOutputStream(marker, WRITE, TRUNCATE_EXISTING).close();
        } catch (NoSuchFileException e) {
            LOG.debug("The directory of {} is gone", marker, e);
        } catch (IOException e) {
            throw new ProcessorStateException("cannot write " + marker, e);
        }
    }

    /** The name of the store's keyspace. */
    String keyspaceName() {
        return task + "." + store + "." + identity;
    }

    Position position() {
        byte[] bytes = value("position");
        return bytes == null
                ? Position.emptyPosition()
                : PositionSerde.deserialize(ByteBuffer.wrap(bytes));
    }

    /**
     * Notes how far the data is, together. The data was written before, and a crash keeps a prefix
     * of all writes, so the data is never behind these offsets.
     *
     * @param changes the offset by partition, null to forget it; if it is empty, all are forgotten
     */
    void commit(Map<TopicPartition, Long> changes, Position position) {
        Batch batch = database.database().batch();
        if (changes.isEmpty()) {
            batch.deletePrefix(offsets, key("o"));
        }
        changes.forEach((partition, offset) -> {
            if (offset == null) {
                batch.delete(offsets, key(partition));
            } else {
                batch.put(offsets, key(partition), ByteBuffer.allocate(Long.BYTES).putLong(offset).array());
            }
        });
        batch.put(offsets, key("position"), PositionSerde.serialize(position).array()).commit();
    }

    void savePosition(Position position) {
        offsets.put(key("position"), PositionSerde.serialize(position).array());
    }

    Long committedOffset(TopicPartition partition) {
        byte[] offset = offsets.get(key(partition));
        return offset == null ? null : ByteBuffer.wrap(offset).getLong();
    }

    void close(Position position) {
        database.database()
                .batch()
                .put(offsets, key("position"), PositionSerde.serialize(position).array())
                .put(offsets, key("status"), CLOSED)
                .commit();
    }

    /** The identity that a row is of. */
    static String of(byte[] row) {
        return new String(row, 0, Math.min(row.length, IDENTITY_BYTES), StandardCharsets.UTF_8);
    }

    static byte[] prefix(String identity) {
        return utf8(identity + "\0");
    }

    private byte[] value(String what) {
        return offsets.get(key(what));
    }

    private byte[] key(TopicPartition partition) {
        return key("o" + partition);
    }

    private byte[] key(String what) {
        return utf8(identity + "\0" + what);
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
