package io.hedgerow.kafka;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The versions of a key in one segment of a versioned store, the oldest first. A version is valid
 * from its own time to that of the next one. One without a value is a deletion; if it is the last
 * of its key, it ends where it begins.
 *
 * <pre>
 * each version: valid to (8 bytes), valid from (8 bytes), length of the value (4 bytes, -1 for
 * none), value
 * </pre>
 */
final class Versions {
    private static final int HEAD_BYTES = 2 * Long.BYTES + Integer.BYTES;

    static final class Version {
        final long from;
        final long to;
        final byte[] value;

        Version(long from, long to, byte[] value) {
            this.from = from;
            this.to = to;
            this.value = value;
        }
    }

    final List<Version> versions = new ArrayList<>();
    boolean changed;

    /** The versions of a row; none if it is null. */
    static Versions of(byte[] row) {
        Versions result = new Versions();
        if (row != null) {
            for (ByteBuffer bytes = ByteBuffer.wrap(row); bytes.hasRemaining(); ) {
                long to = bytes.getLong();
                long from = bytes.getLong();
                int length = bytes.getInt();
                byte[] value = length < 0 ? null : new byte[length];
                if (value != null) {
                    bytes.get(value);
                }
                result.versions.add(new Version(from, to, value));
            }
        }
        return result;
    }

    byte[] row() {
        int length = 0;
        for (Version version : versions) {
            length += HEAD_BYTES + (version.value == null ? 0 : version.value.length);
        }
        ByteBuffer bytes = ByteBuffer.allocate(length);
        for (Version version : versions) {
            bytes.putLong(version.to).putLong(version.from);
            bytes.putInt(version.value == null ? -1 : version.value.length);
            if (version.value != null) {
                bytes.put(version.value);
            }
        }
        return bytes.array();
    }

    /** The first version that is valid behind a time; null if there is none. */
    Version endingAfter(long time) {
        return versions.stream().filter(it -> it.to > time).findFirst().orElse(null);
    }

    boolean hasEnd(long time) {
        return versions.stream().anyMatch(it -> it.to == time);
    }

    void add(Version added) {
        int at = 0;
        while (at < versions.size() && isBefore(versions.get(at), added)) {
            at++;
        }
        versions.add(at, added);
        changed = true;
    }

    private static boolean isBefore(Version one, Version other) {
        return one.to < other.to || one.to == other.to && one.from < other.from;
    }

    void remove(Version removed) {
        versions.remove(removed);
        changed = true;
    }
}
