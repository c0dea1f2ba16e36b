package io.hedgerow.kafka.shop;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyQueryMetadata;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * A page over interactive queries: {@code /} has the customers of the partitions of this instance,
 * {@code /customer?NAME} one customer with its windows, from whichever instance has it.
 */
final class Page {
    private final KafkaStreams streams;
    private final int port;

    Page(KafkaStreams streams, int port) {
        this.streams = streams;
        this.port = port;
    }

    void start() throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("localhost", port), 0);
        server.createContext("/", exchange -> answer(exchange));
        server.start();
    }

    private void answer(HttpExchange exchange) throws IOException {
        String key = exchange.getRequestURI().getRawQuery();
        String body;
        int status = 200;
        try {
            body = key == null ? sums() : customer(exchange, URLDecoder.decode(key, StandardCharsets.UTF_8));
        } catch (InvalidStateStoreException | IllegalStateException e) {
            status = 503;
            body = "The state is moving: " + escape(String.valueOf(e.getMessage()));
        }
        if (body == null) {
            status = 302;
            body = "";
        }
        byte[] page = ("<!doctype html><meta charset=utf-8><title>Shop</title><h1>Shop at " + port
                        + ", " + streams.state() + "</h1>" + body)
                .getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "text/html; charset=utf-8");
        exchange.sendResponseHeaders(status, page.length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(page);
        }
    }

    private String sums() {
        ReadOnlyKeyValueStore<String, Long> sums = store("sums");
        ReadOnlyKeyValueStore<String, Long> paid = store("paid");
        ReadOnlyKeyValueStore<String, String> latest = store("latest");
        StringBuilder rows = new StringBuilder("<table><tr><th>customer<th>sum<th>paid<th>latest");
        try (KeyValueIterator<String, Long> all = sums.all()) {
            for (int i = 0; i < 100 && all.hasNext(); i++) {
                var row = all.next();
                rows.append("<tr><td><a href='/customer?").append(escape(row.key)).append("'>");
                rows.append(escape(row.key)).append("</a><td>").append(row.value);
                rows.append("<td>").append(paid.get(row.key));
                rows.append("<td>").append(escape(String.valueOf(latest.get(row.key))));
            }
        }
        return rows.append("</table>").toString();
    }

    private <V> ReadOnlyKeyValueStore<String, V> store(String name) {
        return streams.store(
                StoreQueryParameters.fromNameAndType(
                        name, QueryableStoreTypes.<String, V>keyValueStore()));
    }

    /** A customer's page; null if another instance has it, to which the browser is sent. */
    private String customer(HttpExchange exchange, String key) {
        KeyQueryMetadata where =
                streams.queryMetadataForKey("sums", key, Serdes.String().serializer());
        if (where.activeHost().port() != port && where.activeHost().port() > 0) {
            exchange.getResponseHeaders()
                    .set("Location", "http://localhost:" + where.activeHost().port() + "/customer?" + key);
            return null;
        }
        ReadOnlyWindowStore<String, Long> windows =
                streams.store(
                        StoreQueryParameters.fromNameAndType(
                                "windows", QueryableStoreTypes.<String, Long>windowStore()));
        StringBuilder rows = new StringBuilder("<h2>" + escape(key) + "</h2><table><tr><th>from<th>orders");
        try (WindowStoreIterator<Long> found =
                windows.backwardFetch(key, Instant.EPOCH, Instant.ofEpochMilli(Long.MAX_VALUE))) {
            found.forEachRemaining(
                    it -> rows.append("<tr><td>").append(Instant.ofEpochMilli(it.key)).append("<td>")
                            .append(it.value));
        }
        return rows.append("</table>").toString();
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#39;");
    }
}
