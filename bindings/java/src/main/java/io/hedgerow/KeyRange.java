package io.hedgerow;

import java.util.Arrays;
import java.util.Objects;

/**
 * A range of keys, and the direction in which it is read. Immutable. Bounds compare unsigned. A
 * range whose end lies before its beginning is empty.
 *
 * <pre>{@code
 * KeyRange.from(a).to(b)                // a <= key < b
 * KeyRange.after(a).through(b)          // a < key <= b
 * KeyRange.prefix(p).reversed()         // keys that begin with p, the last one first
 * }</pre>
 */
public final class KeyRange {
    static final int FROM_INCLUDED = 1;
    static final int TO_INCLUDED = 2;
    static final int PREFIX = 4;
    static final int REVERSE = 8;
    static final int KEYS_ONLY = 16;
    static final int UNORDERED = 32;

    private static final KeyRange ALL = new KeyRange(null, null, 0);

    final byte[] from;
    final byte[] to;
    final int flags;

    private KeyRange(byte[] from, byte[] to, int flags) {
        this.from = from;
        this.to = to;
        this.flags = flags;
    }

    /** All keys. */
    public static KeyRange all() {
        return ALL;
    }

    /** The keys that begin with some bytes. Of semi-sorted keys: those with this prefix. */
    public static KeyRange prefix(byte[] prefix) {
        return new KeyRange(prefix.clone(), null, PREFIX);
    }

    /** The keys from this one on. */
    public static KeyRange from(byte[] key) {
        return new KeyRange(key.clone(), null, FROM_INCLUDED);
    }

    /** The keys behind this one. */
    public static KeyRange after(byte[] key) {
        return new KeyRange(key.clone(), null, 0);
    }

    /** This range up to a key, without it. */
    public KeyRange to(byte[] key) {
        return ending(key, 0);
    }

    /** This range up to a key, which belongs to it. */
    public KeyRange through(byte[] key) {
        return ending(key, TO_INCLUDED);
    }

    private KeyRange ending(byte[] key, int included) {
        if ((flags & PREFIX) != 0) {
            throw new IllegalStateException("a prefix has no other end");
        }
        return new KeyRange(from, key.clone(), flags & ~TO_INCLUDED | included);
    }

    /** The same keys in the other direction. */
    public KeyRange reversed() {
        return new KeyRange(from, to, flags ^ REVERSE);
    }

    /** The same keys without their values, which saves reading long ones. */
    public KeyRange keysOnly() {
        return new KeyRange(from, to, flags | KEYS_ONLY);
    }

    /**
     * All keys in the order in which they are stored. It is the only way to read all keys of a
     * keyspace whose layout is {@code hashed}.
     */
    public static KeyRange unordered() {
        return new KeyRange(null, null, UNORDERED);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof KeyRange
                && flags == ((KeyRange) other).flags
                && Arrays.equals(from, ((KeyRange) other).from)
                && Arrays.equals(to, ((KeyRange) other).to);
    }

    @Override
    public int hashCode() {
        return Objects.hash(flags, Arrays.hashCode(from), Arrays.hashCode(to));
    }

    @Override
    public String toString() {
        if ((flags & PREFIX) != 0) {
            return Bytes.wrap(from) + "*";
        }
        String begin = from == null ? "" : Bytes.wrap(from) + ((flags & FROM_INCLUDED) != 0 ? "" : "<");
        String end = to == null ? "" : ((flags & TO_INCLUDED) != 0 ? "=" : "") + Bytes.wrap(to);
        return begin + ".." + end + ((flags & REVERSE) != 0 ? " reversed" : "");
    }
}
