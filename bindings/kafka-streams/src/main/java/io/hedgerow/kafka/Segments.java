package io.hedgerow.kafka;

import io.hedgerow.Keyspace;
import java.util.Collection;
import java.util.List;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;

/**
 * The segments of a store: a keyspace for each interval of time, which is dropped as a whole once
 * the time that is retained has passed it. One thread changes them, any thread reads.
 */
final class Segments {
    /** The longest end of a segment's name. */
    static final String LONGEST_END = "." + Long.MAX_VALUE;

    private final ProcessDatabase database;
    private final String store;
    private final String prefix;
    private final long retention;
    private final long interval;
    private final NavigableMap<Long, Keyspace> live = new ConcurrentSkipListMap<>();

    /** Opens the segments that the database has. */
    Segments(ProcessDatabase database, String store, String prefix, long retention, long interval) {
        this.database = database;
        this.store = store;
        this.prefix = prefix + ".";
        this.retention = retention;
        this.interval = interval;
        for (String name : database.database().keyspaceNames()) {
            if (name.startsWith(this.prefix)) {
                long id = Long.parseLong(name.substring(this.prefix.length()));
                live.put(id, database.keyspace(name, store));
            }
        }
    }

    /** The segment of a time. */
    long id(long time) {
        return time / interval;
    }

    /** The first moment of a segment that was not dropped. */
    long begin(Keyspace segment) {
        return Long.parseLong(segment.name().substring(prefix.length())) * interval;
    }

    /** The last moment of a segment that was not dropped. */
    long end(Keyspace segment) {
        return begin(segment) + interval - 1;
    }

    /** The first moment of the segment of a time. */
    long begin(long time) {
        return id(time) * interval;
    }

    /** The existing segment of a time; null if there is none. */
    Keyspace existing(long time) {
        return live.get(id(time));
    }

    /**
     * The segment of a time, which is created if it does not exist; null if it has expired. Drops
     * the segments that have expired.
     *
     * @param streamTime the greatest time of all records
     */
    Keyspace forWriting(long time, long streamTime) {
        long id = id(time);
        if (id < id(streamTime - retention)) {
            return null;
        }
        Keyspace segment = live.get(id);
        if (segment == null) {
            segment = database.keyspace(prefix + id, store);
            live.put(id, segment);
        }
        expire(streamTime);
        return segment;
    }

    /** Drops the segments that have expired. */
    void expire(long streamTime) {
        NavigableMap<Long, Keyspace> expired = live.headMap(id(streamTime - retention), false);
        while (!expired.isEmpty()) {
            database.drop(prefix + expired.pollFirstEntry().getKey());
        }
    }

    /** The segments of an interval of time, both ends included. */
    Collection<Keyspace> between(long from, long to, boolean forward) {
        if (id(from) > id(to)) {
            return List.of();
        }
        NavigableMap<Long, Keyspace> range = live.subMap(id(from), true, id(to), true);
        return (forward ? range : range.descendingMap()).values();
    }

    Collection<Keyspace> all() {
        return live.values();
    }
}
