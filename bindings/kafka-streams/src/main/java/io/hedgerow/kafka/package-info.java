/** State stores of Kafka Streams on Hedgerow: one database, one budget of memory for a process. */
package io.hedgerow.kafka;
