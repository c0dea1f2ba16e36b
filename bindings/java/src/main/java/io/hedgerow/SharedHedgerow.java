package io.hedgerow;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * A share of a database that several parts of a process use: the first share opens it, the last one
 * closes it. So one directory has one database, with one budget, one log and one set of threads.
 */
public final class SharedHedgerow implements AutoCloseable {
    /** The open databases by their directories. */
    private static final Map<Path, Counted> OPEN = new HashMap<>();

    private static final class Counted {
        final Hedgerow db;
        int shares;

        Counted(Hedgerow db) {
            this.db = db;
        }
    }

    private final Path dir;
    private final Hedgerow db;
    private boolean closed;

    private SharedHedgerow(Path dir, Hedgerow db) {
        this.dir = dir;
        this.db = db;
    }

    /**
     * Takes a share of the database in a directory, which is opened with these options if no other
     * part of the process has it open by this class.
     */
    public static SharedHedgerow open(Path dir, Options options) {
        synchronized (OPEN) {
            Path real = real(dir);
            Counted counted = OPEN.get(real);
            if (counted == null) {
                counted = new Counted(Hedgerow.open(real, options));
                OPEN.put(real, counted);
            }
            counted.shares++;
            return new SharedHedgerow(real, counted.db);
        }
    }

    /** The database. The share's owner must not close it. */
    public Hedgerow database() {
        synchronized (OPEN) {
            if (closed) {
                throw new IllegalStateException("the share of the database is closed");
            }
            return db;
        }
    }

    /** Gives the share back, once. The last one closes the database. */
    @Override
    public void close() {
        synchronized (OPEN) {
            if (closed) {
                return;
            }
            closed = true;
            Counted counted = OPEN.get(dir);
            counted.shares--;
            if (counted.shares == 0) {
                OPEN.remove(dir);
                counted.db.close();
            }
        }
    }

    /** The directory by its one name. Links to it are the same database. */
    private static Path real(Path dir) {
        try {
            Files.createDirectories(dir);
            return dir.toRealPath();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot create " + dir, e);
        }
    }
}
