package io.hedgerow;

/** The counts of what {@link Hedgerow#verify} has read. */
public final class VerifyReport {
    private final long tables;
    private final long entries;
    private final long bytes;
    private final long logEntries;

    VerifyReport(byte[] packed) {
        Unpacker numbers = new Unpacker(packed);
        tables = numbers.nextLong();
        entries = numbers.nextLong();
        bytes = numbers.nextLong();
        logEntries = numbers.nextLong();
    }

    /** The number of tables. */
    public long tables() {
        return tables;
    }

    /** The number of entries in tables. */
    public long entries() {
        return entries;
    }

    /** The bytes of tables. */
    public long bytes() {
        return bytes;
    }

    /** The number of entries in the log. */
    public long logEntries() {
        return logEntries;
    }
}
