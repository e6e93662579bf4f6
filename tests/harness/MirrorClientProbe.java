import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Asks MirrorMaker's own client of a cluster, and prints what it says.
 *
 * On stdin: a JSON list of questions. Each has the client's `properties`, the alias of the `source`, the consumer
 * `groups` whose offsets are translated, and the `aliases` of clusters to which the hops are counted. On stdout: a JSON
 * list of the answers.
 */
public final class MirrorClientProbe {
    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        List<Object> answers = new ArrayList<>();
        for (JsonNode question : JSON.readTree(System.in)) {
            answers.add(answer(question));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> answer(JsonNode question) throws Exception {
        Map<String, Object> properties = JSON.convertValue(question.get("properties"), Map.class);
        String source = question.get("source").asText();
        Map<String, Object> found = new TreeMap<>();
        Map<String, Object> offsets = new TreeMap<>();
        for (JsonNode group : question.get("groups")) {
            offsets.put(group.asText(), translated(properties, source, group.asText()));
        }
        found.put("translateOffsets", offsets);
        try (MirrorClient client = new MirrorClient(properties)) {
            Map<String, Integer> hops = new TreeMap<>();
            for (JsonNode alias : question.get("aliases")) {
                hops.put(alias.asText(), client.replicationHops(alias.asText()));
            }
            found.put("replicationHops", hops);
            found.put("checkpointTopics", new TreeSet<>(client.checkpointTopics()));
            found.put("heartbeatTopics", new TreeSet<>(client.heartbeatTopics()));
            found.put("upstreamClusters", new TreeSet<>(client.upstreamClusters()));
            found.put("remoteTopics", new TreeSet<>(client.remoteTopics()));
            found.put("remoteTopicsOfSource", new TreeSet<>(client.remoteTopics(source)));
            String heartbeats = client.replicationPolicy().formatRemoteTopic(source, "heartbeats");
            found.put("heartbeats", heartbeats(properties, heartbeats));
            found.put("offsetSyncs", offsetSyncs(properties, client.replicationPolicy().offsetSyncsTopic(source)));
        }
        return found;
    }

    private static List<Object> translated(Map<String, Object> properties, String source, String group)
            throws Exception {
        List<Object> found = new ArrayList<>();
        RemoteClusterUtils.translateOffsets(properties, source, group, TIMEOUT).forEach((at, offset) ->
            found.add(List.of(at.topic(), at.partition(), offset.offset(), offset.metadata())));
        return found;
    }

    private static List<Object> heartbeats(Map<String, Object> properties, String topic) {
        List<Object> found = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : records(properties, topic)) {
            Heartbeat beat = Heartbeat.deserializeRecord(record);
            found.add(List.of(beat.sourceClusterAlias(), beat.targetClusterAlias(), beat.timestamp()));
        }
        return found;
    }

    /** What MirrorMaker reads in each offset sync, and the bytes that it would write for it. */
    private static List<Object> offsetSyncs(Map<String, Object> properties, String topic) throws Exception {
        List<Object> found = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : records(properties, topic)) {
            OffsetSync sync = OffsetSync.deserializeRecord(record);
            TopicPartition at = sync.topicPartition();
            List<Object> fields = List.of(at.topic(), at.partition(), sync.upstreamOffset(), sync.downstreamOffset());
            found.add(List.of(fields, bytes(sync, "recordKey"), bytes(sync, "recordValue")));
        }
        return found;
    }

    private static String bytes(OffsetSync sync, String name) throws Exception {
        Method encode = OffsetSync.class.getDeclaredMethod(name); // MirrorMaker keeps it to its own package
        encode.setAccessible(true);
        return HexFormat.of().formatHex((byte[]) encode.invoke(sync));
    }

    /** What stands in partition 0 of a topic now, and is committed. */
    private static List<ConsumerRecord<byte[], byte[]>> records(Map<String, Object> properties, String topic) {
        Map<String, Object> config = new TreeMap<>(properties);
        config.put("isolation.level", "read_committed");
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, bytes, bytes)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                consumer.poll(Duration.ofMillis(100)).forEach(found::add); // at the end a marker alone gives no record
            }
        }
        return found;
    }
}
