package io.hedgerow;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.common.collect.testing.ConcurrentNavigableMapTestSuiteBuilder;
import com.google.common.collect.testing.Helpers;
import com.google.common.collect.testing.SampleElements;
import com.google.common.collect.testing.TestSortedMapGenerator;
import com.google.common.collect.testing.features.CollectionFeature;
import com.google.common.collect.testing.features.CollectionSize;
import com.google.common.collect.testing.features.MapFeature;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import junit.framework.TestFailure;
import junit.framework.TestResult;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Guava testlib's suite for navigable maps, over the view of a keyspace. */
class MapSuiteTest {
    /** The number of tests of guava-testlib 33.5.0 with these features. */
    private static final int TESTS = 33_150;

    @Test
    void theViewOfAKeyspaceIsANavigableMap(@TempDir Path dir) {
        try (Hedgerow db = Hedgerow.open(dir.resolve("db"))) {
            TestResult result = new TestResult();
            ConcurrentNavigableMapTestSuiteBuilder.using(new Maps(db))
                    .named("KeyspaceMap")
                    .withFeatures(
                            MapFeature.GENERAL_PURPOSE,
                            CollectionFeature.KNOWN_ORDER,
                            CollectionFeature.SUPPORTS_ITERATOR_REMOVE,
                            CollectionSize.ANY)
                    .createTestSuite()
                    .run(result);
            int failed = result.failureCount() + result.errorCount();
            System.out.printf(
                    "guava-testlib: %d tests, %d failed, expected %d%n",
                    result.runCount(), failed, TESTS);
            result.failures().asIterator().forEachRemaining(it -> print(it));
            result.errors().asIterator().forEachRemaining(it -> print(it));
            assertEquals(0, failed);
            assertEquals(TESTS, result.runCount());
        }
    }

    private static void print(TestFailure failure) {
        System.out.println(failure + "\n" + failure.trace());
    }

    private static final class Maps implements TestSortedMapGenerator<Bytes, Bytes> {
        /**
         * The maps that one keyspace serves, one after another: each leaves what scans step over.
         */
        private static final int MAPS = 100;

        private final Hedgerow db;
        private Keyspace keyspace;
        private int maps;

        Maps(Hedgerow db) {
            this.db = db;
        }

        private static Map.Entry<Bytes, Bytes> entry(String key, String value) {
            return Helpers.mapEntry(Bytes.utf8(key), Bytes.utf8(value));
        }

        @Override
        public SampleElements<Map.Entry<Bytes, Bytes>> samples() {
            return new SampleElements<>(
                    entry("one", "January"),
                    entry("two", "February"),
                    entry("three", "March"),
                    entry("four", "April"),
                    entry("five", "May"));
        }

        @Override
        public SortedMap<Bytes, Bytes> create(Object... entries) {
            if (maps++ % MAPS == 0) {
                keyspace = db.keyspace("map " + maps);
            }
            Batch batch = db.batch().deleteRange(keyspace, KeyRange.all());
            for (Object object : entries) {
                Map.Entry<?, ?> entry = (Map.Entry<?, ?>) object;
                byte[] key = ((Bytes) entry.getKey()).toArray();
                batch.put(keyspace, key, ((Bytes) entry.getValue()).toArray());
            }
            batch.commit();
            return keyspace.asMap();
        }

        @Override
        @SuppressWarnings({"unchecked", "rawtypes"})
        public Map.Entry<Bytes, Bytes>[] createArray(int length) {
            return new Map.Entry[length];
        }

        @Override
        public Bytes[] createKeyArray(int length) {
            return new Bytes[length];
        }

        @Override
        public Bytes[] createValueArray(int length) {
            return new Bytes[length];
        }

        @Override
        public Iterable<Map.Entry<Bytes, Bytes>> order(List<Map.Entry<Bytes, Bytes>> entries) {
            entries.sort(Comparator.comparing(Map.Entry::getKey));
            return entries;
        }

        @Override
        public Map.Entry<Bytes, Bytes> belowSamplesLesser() {
            return entry("!! a", "below lesser");
        }

        @Override
        public Map.Entry<Bytes, Bytes> belowSamplesGreater() {
            return entry("!! b", "below greater");
        }

        @Override
        public Map.Entry<Bytes, Bytes> aboveSamplesLesser() {
            return entry("~~ a", "above lesser");
        }

        @Override
        public Map.Entry<Bytes, Bytes> aboveSamplesGreater() {
            return entry("~~ b", "above greater");
        }
    }
}
