package io.hedgerow.kafka.bench;

import java.io.IOException;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends orders: keys of 16 bytes, values of which one half is random and the other zero. */
final class Input implements AutoCloseable {
    /** Has no factor in common with the numbers of keys that one uses. */
    private static final long STEP = 1_000_003;

    private final KafkaProducer<byte[], byte[]> producer;
    private SplittableRandom random;
    private volatile Exception failure;

    Input(String broker) {
        Map<String, Object> config =
                Map.of(
                        "bootstrap.servers", broker,
                        "linger.ms", 20,
                        "batch.size", 256 << 10,
                        // Retries of many batches at once come out of order, and then end no more.
                        "enable.idempotence", false,
                        "acks", "1",
                        // A busy machine may take its time.
                        "request.timeout.ms", 300_000,
                        "delivery.timeout.ms", 600_000);
        producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /**
     * Sends an order of each key, in no order. The orders are the same each time, also those that
     * follow.
     */
    void load(String topic, long keys, int valueBytes) throws IOException {
        random = new SplittableRandom(1);
        for (long i = 0; i < keys; i++) {
            send(topic, i * STEP % keys, valueBytes);
        }
        flush();
    }

    /** Sends orders of random keys. */
    void update(String topic, long count, long keys, int valueBytes)
            throws IOException {
        for (long i = 0; i < count; i++) {
            send(topic, random.nextLong(keys), valueBytes);
        }
        flush();
    }

    private void flush() throws IOException {
        producer.flush();
        if (failure != null) {
            throw new IOException("orders were not sent", failure);
        }
    }

    private void send(String topic, long number, int valueBytes) {
        byte[] key = "customer00000000".getBytes();
        for (int i = key.length - 1; number > 0; i--, number /= 10) {
            key[i] = (byte) ('0' + number % 10);
        }
        byte[] half = new byte[valueBytes / 2];
        random.nextBytes(half);
        byte[] value = new byte[valueBytes];
        System.arraycopy(half, 0, value, 0, half.length);
        producer.send(new ProducerRecord<>(topic, key, value), (sent, failed) -> {
            if (failed != null) {
                failure = failed;
            }
        });
    }

    @Override
    public void close() {
        producer.close();
    }
}
