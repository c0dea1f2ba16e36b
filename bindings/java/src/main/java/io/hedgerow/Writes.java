package io.hedgerow;

import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;

/**
 * Writes to any keyspaces of a database, which are committed together. They take effect in their
 * order. Filling costs no crossing into native code. For one thread at a time.
 *
 * <p>The bounds of keys and values are checked when the writes reach the database.
 *
 * @param <B> the kind of batch
 */
public abstract class Writes<B extends Writes<B>> {
    private static final int CAPACITY = 256;
    private static final byte KEYSPACE = 0;
    static final byte PUT = 1;
    static final byte DELETE = 2;
    static final byte MERGE = 3;
    static final byte PUT_EXPIRING = 4;
    private static final byte DELETE_RANGE = 5;

    final Hedgerow db;
    final Packer packed = new Packer(CAPACITY);
    /** The bytes of whole writes. */
    int length;

    int size;

    /** Keeps the handles that the packed writes name. */
    private final Set<Keyspace> keyspaces = Collections.newSetFromMap(new IdentityHashMap<>());

    private Keyspace last;
    private Keyspace next;

    Writes(Hedgerow db) {
        this.db = db;
    }

    abstract B self();

    /** Called after each write. */
    void added() {}

    /** Gives a key a value. */
    public B put(Keyspace keyspace, byte[] key, byte[] value) {
        return end(begin(keyspace, PUT).add(key).add(value));
    }

    /** Gives a key a value for a time, in milliseconds, from the commit on. */
    public B put(Keyspace keyspace, byte[] key, byte[] value, Duration time) {
        return put(keyspace, key, value, Expiry.AFTER, time.toMillis());
    }

    /** Gives a key a value until a moment, to the millisecond. */
    public B put(Keyspace keyspace, byte[] key, byte[] value, Instant until) {
        return put(keyspace, key, value, Expiry.AT, until.toEpochMilli());
    }

    private B put(Keyspace keyspace, byte[] key, byte[] value, int kind, long millis) {
        begin(keyspace, PUT_EXPIRING).add((byte) kind).add(millis);
        return end(packed.add(key).add(value));
    }

    /** Deletes a key. */
    public B delete(Keyspace keyspace, byte[] key) {
        return end(begin(keyspace, DELETE).add(key));
    }

    /** Adds an operand, which the keyspace's merge operator combines with the value of a key. */
    public B merge(Keyspace keyspace, byte[] key, byte[] operand) {
        return end(begin(keyspace, MERGE).add(key).add(operand));
    }

    /** Deletes all keys of a range. */
    public B deleteRange(Keyspace keyspace, KeyRange range) {
        begin(keyspace, DELETE_RANGE).add((byte) range.flags);
        return end(packed.addOptional(range.from).addOptional(range.to));
    }

    /** Deletes all keys that begin with some bytes. */
    public B deletePrefix(Keyspace keyspace, byte[] prefix) {
        return deleteRange(keyspace, KeyRange.prefix(prefix));
    }

    /** The number of writes. */
    public int size() {
        return size;
    }

    private Packer begin(Keyspace keyspace, byte kind) {
        // A write that was refused half-way is forgotten.
        packed.length = length;
        if (keyspace != last) {
            if (keyspace.db != db) {
                throw new IllegalArgumentException(
                        "expected a keyspace of the batch's database, found one of another");
            }
            packed.add(KEYSPACE).add(keyspace.ref.get());
        }
        next = keyspace;
        return packed.add(kind);
    }

    private B end(Packer whole) {
        length = whole.length;
        if (next != last) {
            keyspaces.add(next);
            last = next;
        }
        size++;
        added();
        return self();
    }

    /** Forgets the packed writes, and keeps their memory. */
    void reset() {
        length = 0;
        last = null;
        keyspaces.clear();
    }
}
