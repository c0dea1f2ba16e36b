package io.hedgerow.kafka;

import io.hedgerow.Hedgerow;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * The statistics of a database, at most a second old, and how much their numbers have grown in the
 * last half minute to minute. All gauges of all stores read them, from any thread.
 */
final class DatabaseStats {
    static final long NEW_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long STRETCH_NANOS = TimeUnit.SECONDS.toNanos(30);

    /** The numbers at a time. */
    private static final class Look {
        private final long at;
        private final Map<String, Object> stats;

        Look(long at, Map<String, Object> stats) {
            this.at = at;
            this.stats = stats;
        }

        long number(String path) {
            return ((Number) stats.get(path)).longValue();
        }
    }

    private Look last;
    /** The looks at the beginnings of this stretch of time, and of the one before. */
    private Look begin;

    private Look before;

    /** Looks again, unless the last look was a moment ago. */
    synchronized DatabaseStats refresh(Hedgerow database) {
        long now = ProcessDatabase.clock.getAsLong();
        if (last == null || now - last.at >= NEW_NANOS) {
            last = new Look(now, database.stats());
            if (begin == null) {
                begin = last;
                before = last;
            }
            if (now - begin.at >= STRETCH_NANOS) {
                before = begin;
                begin = last;
            }
        }
        return this;
    }

    synchronized long number(String path) {
        return last.number(path);
    }

    synchronized long growth(String path) {
        return last.number(path) - before.number(path);
    }

    /** The growth per second. */
    synchronized double rate(String path) {
        return last.at == before.at ? 0 : growth(path) * 1e9 / (last.at - before.at);
    }
}
