package io.hedgerow.kafka.shop;

import io.hedgerow.kafka.HedgerowDslStoreSuppliers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * An instance of an application: orders of customers are summed up, counted by windows, and joined
 * with the customers' names and with payments. A small page shows what its stores have.
 */
public final class Instance {
    static final String ORDERS = "orders";
    static final String PAYMENTS = "payments";
    static final String CUSTOMERS = "customers";
    static final String SUMS = "sums";
    static final String WINDOWS = "windows";
    static final Duration WINDOW = Duration.ofSeconds(10);
    /**
     * More of the stream's time than an instance processes again after a kill. A window that is
     * gone then would be counted from 1.
     */
    private static final Duration RETENTION = Duration.ofHours(1);
    /** The time between an order and its payment. */
    private static final Duration PAID_WITHIN = Duration.ofSeconds(5);

    private Instance() {}

    /** Arguments: address of the broker, directory, port of the page, guarantee, suppliers. */
    public static void main(String[] arguments) throws Exception {
        Path dir = Files.createDirectories(Path.of(arguments[1]));
        int port = Integer.parseInt(arguments[2]);
        String suppliers = arguments.length > 4 ? arguments[4] : HedgerowDslStoreSuppliers.class.getName();
        Properties config = config(arguments[0], dir, port, arguments[3], suppliers);
        KafkaStreams streams = new KafkaStreams(topology().build(config), config);
        AtomicLong restored = new AtomicLong();
        streams.setGlobalStateRestoreListener(restoreListener(restored));
        streams.setStateListener((now, before) -> {
            try {
                Files.writeString(dir.resolve("state"), now + " " + restored.get());
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        });
        Files.deleteIfExists(dir.resolve("state"));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        new Page(streams, port).start();
    }

    private static Properties config(
            String broker, Path dir, int port, String guarantee, String suppliers) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "shop");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, broker);
        config.put(StreamsConfig.STATE_DIR_CONFIG, dir.resolve("state-dir").toString());
        config.put(StreamsConfig.APPLICATION_SERVER_CONFIG, "localhost:" + port);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        config.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, 1);
        // An instance that comes back gets its tasks within a minute, in place of ten.
        config.put(StreamsConfig.PROBING_REBALANCE_INTERVAL_MS_CONFIG, 60_000L);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        // So that stores get every write, also those behind the last commit when a process dies.
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.LongSerde.class);
        config.put("session.timeout.ms", 6000);
        config.put("auto.offset.reset", "earliest");
        config.put("hedgerow.memory.bytes", 64L << 20);
        return config;
    }

    private static StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Long> orders = builder.stream(ORDERS);
        KTable<String, String> customers =
                builder.table(
                        CUSTOMERS,
                        Consumed.with(Serdes.String(), Serdes.String()),
                        Materialized.as("names"));
        orders.leftJoin(customers, (amount, name) -> amount + " for " + name)
                .toTable(
                        Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("latest")
                                .withValueSerde(Serdes.String()));
        orders.join(
                        builder.<String, Long>stream(PAYMENTS),
                        (ordered, paid) -> ordered.equals(paid) ? paid : 0L,
                        JoinWindows.ofTimeDifferenceWithNoGrace(PAID_WITHIN))
                .groupByKey()
                .reduce(Long::sum, Materialized.as("paid"));
        KGroupedStream<String, Long> byCustomer = orders.groupByKey();
        byCustomer
                .reduce(Long::sum, Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("sums"))
                .toStream()
                .to(SUMS);
        byCustomer
                .windowedBy(TimeWindows.ofSizeWithNoGrace(WINDOW))
                .count(
                        Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows")
                                .withRetention(RETENTION))
                .toStream((window, count) -> window.key() + "@" + window.window().start())
                .to(WINDOWS, Produced.with(Serdes.String(), Serdes.Long()));
        return builder;
    }

    private static StateRestoreListener restoreListener(AtomicLong restored) {
        return new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition partition, String store, long from, long to) {}

            @Override
            public void onBatchRestored(
                    TopicPartition partition, String store, long offset, long records) {
                restored.addAndGet(records);
            }

            @Override
            public void onRestoreEnd(TopicPartition partition, String store, long records) {}
        };
    }
}
