package io.hedgerow.kafka.shop;

import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends orders of random customers, and keeps what their sums and windows must be. */
final class Orders extends Thread {
    private final String address;
    private final int customers;
    private final int perSecond;
    private final long count;
    private final boolean paid;
    private final Random random = new Random(1);
    private volatile boolean ended;
    private long sent;
    final Map<String, Long> sums = new ConcurrentHashMap<>();
    final Map<String, Long> windows = new ConcurrentHashMap<>();

    /**
     * Orders at a rate, until their number is reached.
     *
     * @param paid true to send a payment with each order
     */
    Orders(String address, int customers, int perSecond, long count, boolean paid) {
        super("orders");
        setDaemon(true);
        this.address = address;
        this.customers = customers;
        this.perSecond = perSecond;
        this.count = count;
        this.paid = paid;
    }

    static Map<String, Object> config(String address) {
        return Map.of(
                "bootstrap.servers", address, "acks", "all", "enable.idempotence", "true",
                "linger.ms", 5);
    }

    @Override
    public void run() {
        try (KafkaProducer<String, Long> producer =
                new KafkaProducer<>(config(address), new StringSerializer(), new LongSerializer())) {
            long began = System.currentTimeMillis();
            for (; sent < count && !ended; sent++) {
                // A time of one clock, so that no order comes too late for its window.
                long now = System.currentTimeMillis();
                long ahead = began + 1000 * sent / perSecond - now;
                if (ahead > 0) {
                    Thread.sleep(ahead);
                }
                send(producer, now);
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void send(KafkaProducer<String, Long> producer, long now) {
        String customer = "customer-" + random.nextInt(customers);
        // So many amounts that a payment is that of one order.
        long amount = 1 + random.nextInt(1_000_000);
        sums.merge(customer, amount, Long::sum);
        long window = now - now % Instance.WINDOW.toMillis();
        windows.merge(customer + "@" + window, 1L, Long::sum);
        producer.send(new ProducerRecord<>(Instance.ORDERS, null, now, customer, amount));
        if (paid) {
            producer.send(new ProducerRecord<>(Instance.PAYMENTS, null, now, customer, amount));
        }
    }

    /** The number of orders that are sent; all of them, once it has ended. */
    long sent() {
        return sent;
    }

    /** Ends when all orders are acknowledged. */
    void end() throws InterruptedException {
        ended = true;
        join();
    }
}
