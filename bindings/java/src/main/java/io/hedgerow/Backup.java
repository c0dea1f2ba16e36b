package io.hedgerow;

import java.time.Instant;

/** A backup in a directory of {@link Backups}. */
public final class Backup {
    private final long id;
    private final Instant made;
    private final long bytes;
    private final long files;

    Backup(Unpacker numbers) {
        id = numbers.nextLong();
        made = Instant.ofEpochSecond(numbers.nextLong());
        bytes = numbers.nextLong();
        files = numbers.nextLong();
    }

    /** Its number, from 1 on. */
    public long id() {
        return id;
    }

    /** The moment at which it was made. */
    public Instant made() {
        return made;
    }

    /** The bytes of its files, which it may share with other backups. */
    public long bytes() {
        return bytes;
    }

    /** The number of its files. */
    public long files() {
        return files;
    }
}
