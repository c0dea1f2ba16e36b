import io.hedgerow.Batch;
import io.hedgerow.EntryIterator;
import io.hedgerow.Hedgerow;
import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import io.hedgerow.Options;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.CompressionType;
import org.rocksdb.LRUCache;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/**
 * Hedgerow beside RocksDB's Java binding in one process: the same keys, values, operations and memory,
 * both in turn in every round. Prints medians in microseconds per operation.
 */
public final class Beside {
    private static final int VALUE_BYTES = 100;
    private static final int MEMORY_BYTES = 64 << 20;
    private static final int WRITE_BUFFER_BYTES = 8 << 20;
    private static final int MANY = 100;

    private final int entries;
    private final Map<String, Map<String, List<Double>>> micros = new LinkedHashMap<>();

    private Beside(int entries) {
        this.entries = entries;
    }

    /** A database of either engine. */
    private interface Side extends AutoCloseable {
        void put(byte[] key, byte[] value) throws RocksDBException;

        void putAll(byte[][] keys, byte[] value) throws RocksDBException;

        byte[] get(byte[] key) throws RocksDBException;

        List<byte[]> getAll(List<byte[]> keys) throws RocksDBException;

        /** Reads entries from a key on; returns how many there were. */
        int scan(byte[] from, int entriesMax);

        /** Waits until the tables are merged. */
        void settle() throws RocksDBException;

        @Override
        void close();
    }

    private static final class OfHedgerow implements Side {
        private final Hedgerow db;
        private final Keyspace keyspace;

        OfHedgerow(Path dir) {
            db = Hedgerow.open(dir, new Options().memoryBudget(MEMORY_BYTES));
            keyspace = db.keyspace("k", "sorted", "compression = none");
        }

        @Override
        public void put(byte[] key, byte[] value) {
            keyspace.put(key, value);
        }

        @Override
        public void putAll(byte[][] keys, byte[] value) {
            Batch batch = db.batch();
            for (byte[] key : keys) {
                batch.put(keyspace, key, value);
            }
            batch.commit();
        }

        @Override
        public byte[] get(byte[] key) {
            return keyspace.get(key);
        }

        @Override
        public List<byte[]> getAll(List<byte[]> keys) {
            return keyspace.multiGet(keys);
        }

        @Override
        public int scan(byte[] from, int entriesMax) {
            int found = 0;
            try (EntryIterator all = keyspace.iterate(KeyRange.from(from))) {
                for (; found < entriesMax && all.hasNext(); found++) {
                    all.next();
                }
            }
            return found;
        }

        @Override
        public void settle() {
            db.flush().await();
            keyspace.waitUntilMerged().await();
        }

        @Override
        public void close() {
            db.close();
        }
    }

    private static final class OfRocksDb implements Side {
        private final RocksDB db;
        private final WriteOptions writes;

        OfRocksDb(Path dir) throws RocksDBException {
            writes = new WriteOptions();
            BlockBasedTableConfig tables = new BlockBasedTableConfig();
            tables.setBlockCache(new LRUCache(MEMORY_BYTES - 2 * WRITE_BUFFER_BYTES));
            tables.setFilterPolicy(new BloomFilter(10));
            tables.setCacheIndexAndFilterBlocks(true);
            db = RocksDB.open(
                    new org.rocksdb.Options()
                            .setCreateIfMissing(true)
                            .setCompressionType(CompressionType.NO_COMPRESSION)
                            .setWriteBufferSize(WRITE_BUFFER_BYTES)
                            .setMaxWriteBufferNumber(2)
                            .setTableFormatConfig(tables),
                    dir.toString());
        }

        @Override
        public void put(byte[] key, byte[] value) throws RocksDBException {
            db.put(key, value);
        }

        @Override
        public void putAll(byte[][] keys, byte[] value) throws RocksDBException {
            try (WriteBatch batch = new WriteBatch()) {
                for (byte[] key : keys) {
                    batch.put(key, value);
                }
                db.write(writes, batch);
            }
        }

        @Override
        public byte[] get(byte[] key) throws RocksDBException {
            return db.get(key);
        }

        @Override
        public List<byte[]> getAll(List<byte[]> keys) throws RocksDBException {
            return db.multiGetAsList(keys);
        }

        @Override
        public int scan(byte[] from, int entriesMax) {
            int found = 0;
            try (RocksIterator all = db.newIterator()) {
                for (all.seek(from); found < entriesMax && all.isValid(); found++) {
                    all.key();
                    all.value();
                    all.next();
                }
            }
            return found;
        }

        @Override
        public void settle() throws RocksDBException {
            db.flush(new org.rocksdb.FlushOptions());
            db.compactRange();
        }

        @Override
        public void close() {
            db.close();
        }
    }

    private interface Work {
        void run() throws RocksDBException;
    }

    private static byte[] key(int number, boolean present) {
        return String.format("user%011d%c", number, present ? '0' : '1').getBytes(StandardCharsets.UTF_8);
    }

    private void measure(String side, String what, int operations, Work work) throws RocksDBException {
        long began = System.nanoTime();
        work.run();
        double each = (System.nanoTime() - began) / 1e3 / operations;
        micros.computeIfAbsent(what, it -> new LinkedHashMap<>())
                .computeIfAbsent(side, it -> new ArrayList<>())
                .add(each);
    }

    private void round(String name, Side side) throws RocksDBException {
        Random random = new Random(1);
        byte[] value = new byte[VALUE_BYTES];
        random.nextBytes(value);
        measure(name, "put, in batches of 100", entries, () -> {
            for (int i = 0; i < entries; i += MANY) {
                byte[][] keys = new byte[MANY][];
                for (int j = 0; j < MANY; j++) {
                    // Every key once, in an order like a random one.
                    keys[j] = key((int) ((i + j) * 7919L % entries), true);
                }
                side.putAll(keys, value);
            }
        });
        int some = entries / 2;
        measure(name, "put, one at a time", some, () -> {
            for (int i = 0; i < some; i++) {
                side.put(key(random.nextInt(entries), true), value);
            }
        });
        side.settle();
        measure(name, "get, present keys", some, () -> {
            for (int i = 0; i < some; i++) {
                if (side.get(key(random.nextInt(entries), true)) == null) {
                    throw new IllegalStateException("a key is missing in " + name);
                }
            }
        });
        measure(name, "get, absent keys", some, () -> {
            for (int i = 0; i < some; i++) {
                if (side.get(key(random.nextInt(entries), false)) != null) {
                    throw new IllegalStateException("an absent key is in " + name);
                }
            }
        });
        measure(name, "get, 100 keys together", some, () -> {
            for (int i = 0; i < some; i += MANY) {
                List<byte[]> keys = new ArrayList<>();
                for (int j = 0; j < MANY; j++) {
                    keys.add(key(random.nextInt(entries), true));
                }
                side.getAll(keys);
            }
        });
        measure(name, "scan of all, per entry", entries, () -> {
            if (side.scan(key(0, true), entries) != entries) {
                throw new IllegalStateException("an entry is missing in " + name);
            }
        });
        measure(name, "scan of 100", some / MANY, () -> {
            for (int i = 0; i < some / MANY; i++) {
                side.scan(key(random.nextInt(entries), true), MANY);
            }
        });
    }

    private static double median(List<Double> values) {
        double[] sorted = values.stream().mapToDouble(it -> it).sorted().toArray();
        return sorted[sorted.length / 2];
    }

    public static void main(String[] arguments) throws Exception {
        int entries = Integer.parseInt(arguments[0]) / MANY * MANY;
        int rounds = Integer.parseInt(arguments[1]);
        RocksDB.loadLibrary();
        Beside beside = new Beside(entries);
        for (int round = 0; round < rounds; round++) {
            for (String name : Arrays.asList("hedgerow", "rocksdb")) {
                Path dir = Files.createTempDirectory("beside");
                try (Side side =
                        name.equals("hedgerow") ? new OfHedgerow(dir) : new OfRocksDb(dir)) {
                    beside.round(name, side);
                }
                try (var files = Files.walk(dir)) {
                    files.sorted((a, b) -> b.compareTo(a)).forEach(it -> it.toFile().delete());
                }
            }
        }
        System.out.printf("%d entries, %d rounds%n", entries, rounds);
        System.out.println("| operation | hedgerow | rocksdb | times as fast |\n|---|---|---|---|");
        beside.micros.forEach((what, sides) -> {
            double ours = median(sides.get("hedgerow"));
            double theirs = median(sides.get("rocksdb"));
            System.out.printf("| %s | %.2f | %.2f | %.1f |%n", what, ours, theirs, theirs / ours);
        });
    }
}
