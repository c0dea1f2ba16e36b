package io.hedgerow;

/** A key and its value. The arrays belong to the caller. */
public final class Entry {
    private final byte[] key;
    private final byte[] value;

    Entry(byte[] key, byte[] value) {
        this.key = key;
        this.value = value;
    }

    /** The key. */
    public byte[] key() {
        return key;
    }

    /** The value; null if only keys are read. */
    public byte[] value() {
        return value;
    }

    @Override
    public String toString() {
        return Bytes.wrap(key) + "=" + Bytes.wrap(value);
    }
}
