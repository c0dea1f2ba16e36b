package io.hedgerow.kafka;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandleProxies;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.function.UnaryOperator;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.internals.InternalQueryResultUtil;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Ranges in the class of RocksDB's iterator. The DSL's adapter for stores without timestamps casts
 * the result of a {@code RangeQuery} to that class, which only a package of Streams sees. After
 * KAFKA-20760 it casts to a public interface, which our subclass has, too.
 *
 * <p>A module path refuses a package in two jars, and two class loaders make two packages of it. So
 * our subclass is a file under {@code META-INF}. It is defined beside its superclass at run time,
 * and loads no library of RocksDB.
 */
final class RocksDbRanges {
    private static final Logger LOG = LoggerFactory.getLogger(RocksDbRanges.class);
    private static final String FILE = "/META-INF/hedgerow/HedgerowRangeIterator.class";
    private static final UnaryOperator<KeyValueIterator<Bytes, byte[]>> CAST = define(file());

    private RocksDbRanges() {}

    /** Puts the entries of a range query into an iterator of the class. */
    @SuppressWarnings("unchecked")
    static <R> QueryResult<R> cast(QueryResult<R> range) {
        KeyValueIterator<Bytes, byte[]> entries = (KeyValueIterator<Bytes, byte[]>) range.getResult();
        return InternalQueryResultUtil.copyAndSubstituteDeserializedResult(
                range, (R) CAST.apply(entries));
    }

    static InputStream file() {
        return RocksDbRanges.class.getResourceAsStream(FILE);
    }

    /** Defines the class. If it does not fit, iterators stay as they are: Streams refuses them. */
    @SuppressWarnings("unchecked")
    static UnaryOperator<KeyValueIterator<Bytes, byte[]>> define(InputStream file) {
        try (file) {
            if (file == null) {
                throw new FileNotFoundException(FILE);
            }
            MethodHandles.Lookup streams =
                    MethodHandles.privateLookupIn(StoreQueryUtils.class, MethodHandles.lookup());
            MethodHandle make =
                    streams.findConstructor(
                            streams.defineClass(file.readAllBytes()),
                            MethodType.methodType(void.class, KeyValueIterator.class));
            UnaryOperator<KeyValueIterator<Bytes, byte[]>> cast =
                    MethodHandleProxies.asInterfaceInstance(UnaryOperator.class, make);
            // A superclass with another constructor is found out by a call of ours alone.
            cast.apply(Ranges.empty());
            return cast;
        } catch (IOException | ReflectiveOperationException | LinkageError e) {
            LOG.warn(
                    "Range queries of stores without timestamps may fail: "
                            + "RocksDB's iterator is another one in this version of Streams",
                    e);
            return UnaryOperator.identity();
        }
    }
}
