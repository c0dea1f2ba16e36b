package io.hedgerow.kafka;

import io.hedgerow.KeyRange;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.internals.SegmentedBytesStore;
import org.apache.kafka.streams.state.internals.SessionKeySchema;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/** The keys of segmented stores: the record's key, and times behind it, as in the changelog. */
enum SegmentKeys {
    /** Key, window start (8 bytes), sequence number (4 bytes). */
    WINDOW(new WindowKeySchema(), Long.BYTES + Integer.BYTES) {
        @Override
        boolean overlaps(byte[] stored, long from, long to) {
            long start = time(stored);
            return from <= start && start <= to;
        }

        @Override
        long latest(long to) {
            return to;
        }
    },
    /** Key, session end (8 bytes), session start (8 bytes). */
    SESSION(new SessionKeySchema(), 2 * Long.BYTES) {
        @Override
        boolean overlaps(byte[] stored, long from, long to) {
            long start = ByteBuffer.wrap(stored).getLong(stored.length - Long.BYTES);
            return time(stored) >= from && start <= to;
        }

        @Override
        long latest(long to) {
            return Long.MAX_VALUE;
        }
    };

    private final SegmentedBytesStore.KeySchema schema;
    private final int suffix;

    SegmentKeys(SegmentedBytesStore.KeySchema schema, int suffix) {
        this.schema = schema;
        this.suffix = suffix;
    }

    /** Returns true if a window starts, or a session overlaps, between two times. */
    abstract boolean overlaps(byte[] stored, long from, long to);

    /** The last time whose segment may have entries that overlap with a range up to a time. */
    abstract long latest(long to);

    /** The time that tells the segment: a window's start, a session's end. */
    long time(byte[] stored) {
        return ByteBuffer.wrap(stored).getLong(stored.length - suffix);
    }

    /** Returns true if an entry is in a range of keys, null for no end, and of times. */
    boolean contains(byte[] stored, Bytes keyFrom, Bytes keyTo, long from, long to) {
        return overlaps(stored, from, to)
                && (keyFrom == null || compare(stored, keyFrom) >= 0)
                && (keyTo == null || compare(stored, keyTo) <= 0);
    }

    private int compare(byte[] stored, Bytes key) {
        byte[] other = key.get();
        return Arrays.compareUnsigned(stored, 0, stored.length - suffix, other, 0, other.length);
    }

    /** A range of stored keys that has all of a range of keys and times, and others. */
    KeyRange range(Bytes keyFrom, Bytes keyTo, long from, long to) {
        if (keyFrom != null && keyFrom.equals(keyTo)) {
            return Ranges.of(
                    schema.lowerRangeFixedSize(keyFrom, from), schema.upperRangeFixedSize(keyTo, to));
        }
        return Ranges.of(schema.lowerRange(keyFrom, from), schema.upperRange(keyTo, to));
    }
}
