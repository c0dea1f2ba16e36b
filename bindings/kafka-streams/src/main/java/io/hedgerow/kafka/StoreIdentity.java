package io.hedgerow.kafka;

import io.hedgerow.Batch;
import io.hedgerow.Keyspace;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.internals.PositionSerde;

/**
 * Which state in the database a store has, and how far that state is.
 *
 * <p>A file in the task's directory holds an identity made at random. Streams wipes a store by deleting
 * that directory; then the next open makes another identity, so the store is empty. Offsets, position
 * and status are under the identity in a keyspace of all stores:
 *
 * <pre>
 * identity 0 'o' topic-partition    the committed offset, 8 bytes
 * identity 0 'position'             the position
 * identity 0 'status'               1 while the store is open
 * identity 0 'marker'               the path of the file
 * </pre>
 */
final class StoreIdentity {
    private static final String FOLDER = "hedgerow";
    private static final byte[] OPEN = {1};
    private static final byte[] CLOSED = {0};

    private final ProcessDatabase database;
    private final Keyspace offsets;
    private final String store;
    private final String task;
    private final Path marker;
    private final String identity;

    private StoreIdentity(
            ProcessDatabase database, String store, String task, Path marker, String identity) {
        this.marker = marker;
        this.database = database;
        this.store = store;
        this.task = task;
        this.identity = identity;
        offsets = database.offsets();
    }

    /**
     * Finds the state of a store, or makes an empty one, and marks it as open.
     *
     * @throws TaskCorruptedException if it was not closed under exactly-once: it may have writes that
     *     were never committed
     */
    static StoreIdentity open(ProcessDatabase database, StateStoreContext context, String store) {
        Path marker = marker(context.stateDir().toPath(), store);
        StoreIdentity identity =
                new StoreIdentity(
                        database, store, context.taskId().toString(), marker, read(marker));
        boolean exactlyOnce =
                StreamsConfig.EXACTLY_ONCE_V2.equals(
                        context.appConfigs().get(StreamsConfig.PROCESSING_GUARANTEE_CONFIG));
        byte[] status = identity.offsets.get(identity.key("status"));
        if (exactlyOnce && Arrays.equals(status, OPEN)) {
            throw new TaskCorruptedException(
                    Set.of(context.taskId()),
                    new ProcessorStateException(
                            "expected store " + store + " to be closed before it is opened again"));
        }
        // The path is there before any keyspace of the store is.
        database.database()
                .batch()
                .put(identity.offsets, identity.key("marker"), utf8(marker.toAbsolutePath().toString()))
                .put(identity.offsets, identity.key("status"), OPEN)
                .commit();
        if (status == null) {
            database.dropForgotten(identity.task + "." + store + ".");
        }
        return identity;
    }

    private static Path marker(Path taskDirectory, String store) {
        return taskDirectory.resolve(FOLDER).resolve(store);
    }

    private static String read(Path marker) {
        try {
            if (Files.exists(marker)) {
                return UUID.fromString(Files.readString(marker).trim()).toString();
            }
            String identity = UUID.randomUUID().toString();
            Files.createDirectories(marker.getParent());
            Files.writeString(marker, identity);
            return identity;
        } catch (IOException | IllegalArgumentException e) {
            throw new ProcessorStateException("cannot read the identity of a store in " + marker, e);
        }
    }

    /** Returns true if the file of a store still has this identity. */
    static boolean isLive(Keyspace offsets, String identity) {
        byte[] marker = offsets.get(utf8(identity + "\0marker"));
        try {
            return marker != null
                    && Files.readString(Path.of(new String(marker, StandardCharsets.UTF_8)))
                            .trim()
                            .equals(identity);
        } catch (IOException e) {
            return false;
        }
    }

    /** Makes the next open start with an empty store. */
    void forget() {
        try {
            Files.deleteIfExists(marker);
        } catch (IOException e) {
            throw new ProcessorStateException("cannot remove " + marker, e);
        }
    }

    /** The name of the store's keyspace. */
    String keyspaceName() {
        return task + "." + store + "." + identity;
    }

    Position position() {
        byte[] bytes = offsets.get(key("position"));
        return bytes == null
                ? Position.emptyPosition()
                : PositionSerde.deserialize(ByteBuffer.wrap(bytes));
    }

    /**
     * Notes how far the data is, together. The data was written before, and a crash keeps a prefix of
     * all writes, so the data is never behind these offsets.
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

    static byte[] prefix(String identity) {
        return utf8(identity + "\0");
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
