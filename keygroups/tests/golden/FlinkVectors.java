// Writes the golden vectors of this folder with the classes of Flink 2.3.0. See README.md.

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.Random;
import java.util.Set;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.runtime.state.KeyGroupRange;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.util.MathUtils;

public class FlinkVectors {
    static final int[] MAX_PARALLELISMS = {1, 2, 12, 128, 300, 32768};

    public static void main(String[] args) throws IOException {
        keys();
        assignment();
        defaults();
    }

    static void keys() throws IOException {
        Random random = new Random(23);
        try (PrintWriter out = open("flink-keys.csv")) {
            out.print("type,value,hash_code,murmur");
            for (int max : MAX_PARALLELISMS) {
                out.print(",group_of_" + max);
            }
            out.println();

            Set<Integer> ints = new LinkedHashSet<>(
                    Arrays.asList(0, 1, -1, 2, -2, 42, 127, -128, 255, 256, 32767, -32768,
                            65535, 65536, Integer.MAX_VALUE, Integer.MIN_VALUE,
                            Integer.MAX_VALUE - 1, Integer.MIN_VALUE + 1));
            // The two whose murmur value is 0: one by the arithmetic, one because the value is
            // Integer.MIN_VALUE, which has no positive counterpart.
            int i = Integer.MIN_VALUE;
            do {
                if (MathUtils.murmurHash(i) == 0) {
                    ints.add(i);
                }
            } while (i++ != Integer.MAX_VALUE);
            for (int n = 0; n < 200; n++) {
                ints.add(random.nextInt());
            }
            for (int value : ints) {
                key(out, "int", Integer.toString(value), value);
            }

            Set<Long> longs = new LinkedHashSet<>(
                    Arrays.asList(0L, 1L, -1L, 2L, -2L, 42L, 1L << 31, 1L << 32, -(1L << 31),
                            -(1L << 32), (1L << 32) - 1, (1L << 63) - 1, Long.MIN_VALUE,
                            Long.MIN_VALUE + 1, 1L << 62, 0x8000000000000000L ^ 0xFFFFFFFFL));
            for (int n = 0; n < 200; n++) {
                longs.add(random.nextLong());
            }
            for (long value : longs) {
                key(out, "long", Long.toString(value), value);
            }

            Set<String> strings = new LinkedHashSet<>(
                    Arrays.asList("", "a", "Aa", "BB", "hello", "N14228", "NA", "alice", "bob",
                            "\0", "a\0b", "\u00ff", "Gr\u00fc\u00dfe", "\u6771\u4eac",
                            "\ud83d\udeeb", "a\ud83d\udeebz", "\uffff", " ", "\n",
                            "polygenelubricants" /* its hashCode is Integer.MIN_VALUE */,
                            "the quick brown fox jumps over the lazy dog".repeat(20)));
            for (int n = 0; n < 200; n++) {
                strings.add(text(random));
            }
            for (String value : strings) {
                String hex = HexFormat.of().formatHex(value.getBytes(StandardCharsets.UTF_8));
                key(out, "string", hex, value);
            }

            // A byte[] has no hashCode of its content, and Flink refuses it as a key. The hash of
            // the content, given to Flink as the key's, stands for it.
            for (int n = 0; n < 100; n++) {
                byte[] value = new byte[n < 20 ? n : random.nextInt(80)];
                random.nextBytes(value);
                key(out, "bytes", HexFormat.of().formatHex(value), Arrays.hashCode(value));
            }

            for (int n = 0; n < 50; n++) {
                int a = random.nextInt();
                long b = random.nextLong();
                String c = text(random);
                boolean d = random.nextBoolean();
                String hex = HexFormat.of().formatHex(c.getBytes(StandardCharsets.UTF_8));
                key(out, "tuple2", a + ":" + b, Tuple2.of(a, b));
                key(out, "tuple3", a + ":" + b + ":" + hex, Tuple3.of(a, b, c));
                key(out, "tuple4", a + ":" + b + ":" + hex + ":" + d, Tuple4.of(a, b, c, d));
            }
            for (int value : new int[] {0, 1, -1, 127, -128}) {
                key(out, "byte", Integer.toString(value), (byte) value);
                key(out, "short", Integer.toString(value * 256), (short) (value * 256));
            }
            key(out, "boolean", "true", true);
            key(out, "boolean", "false", false);
        }
    }

    static void key(PrintWriter out, String type, String value, Object key) {
        out.print(type + "," + value + "," + key.hashCode() + ","
                + MathUtils.murmurHash(key.hashCode()));
        for (int max : MAX_PARALLELISMS) {
            out.print("," + KeyGroupRangeAssignment.assignToKeyGroup(key, max));
        }
        out.println();
    }

    static String text(Random random) {
        StringBuilder text = new StringBuilder();
        for (int n = random.nextInt(24); n >= 0; n--) {
            int point = random.nextInt(random.nextBoolean() ? 0x80 : 0x11000);
            text.appendCodePoint(0xD800 <= point && point <= 0xDFFF ? 'x' : point);
        }
        return text.toString();
    }

    static void assignment() throws IOException {
        int[] parallelisms = {1, 2, 3, 4, 5, 7, 11, 12, 64, 100, 127, 128, 299, 300, 10923, 32767, 32768};
        try (PrintWriter out = open("flink-assignment.csv")) {
            out.println("max_parallelism,parallelism,subtask,first_group,last_group");
            for (int max : MAX_PARALLELISMS) {
                for (int parallelism : parallelisms) {
                    int step = Math.max(1, parallelism / 13);
                    for (int subtask = 0; parallelism <= max && subtask < parallelism;
                            subtask += subtask + step < parallelism ? step : 1) {
                        KeyGroupRange range = KeyGroupRangeAssignment
                                .computeKeyGroupRangeForOperatorIndex(max, parallelism, subtask);
                        int first = range.getStartKeyGroup();
                        int last = range.getEndKeyGroup();
                        for (int group : new int[] {first, last}) {
                            int owner = KeyGroupRangeAssignment
                                    .computeOperatorIndexForKeyGroup(max, parallelism, group);
                            if (owner != subtask) {
                                throw new AssertionError(group + " is owned by " + owner);
                            }
                        }
                        out.println(max + "," + parallelism + "," + subtask + "," + first + "," + last);
                    }
                }
            }
        }
    }

    static void defaults() throws IOException {
        try (PrintWriter out = open("flink-default-max-parallelism.csv")) {
            out.println("parallelism,max_parallelism");
            int before = 0;
            for (int parallelism = 1; parallelism <= 32768; parallelism++) {
                int max = KeyGroupRangeAssignment.computeDefaultMaxParallelism(parallelism);
                if (max != before || parallelism == 32768) { // where it steps, and the end
                    out.println(parallelism + "," + max);
                }
                before = max;
            }
        }
    }

    static PrintWriter open(String name) throws IOException {
        return new PrintWriter(name, StandardCharsets.US_ASCII);
    }
}
