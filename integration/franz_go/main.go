// A round trip with franz-go: an idempotent producer, every codec, and a consumer of explicit
// partitions that compares each record with the one sent.
//
// usage: client BOOTSTRAP TOPIC PARTITIONS RECORDS
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type codec struct {
	name string
	use  kgo.CompressionCodec
}

var codecs = []codec{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// Every mix of null, empty and filled keys, values and header values comes by.
func record(topic string, partition int32, codecName string, i int) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: partition, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}
	text := fmt.Sprintf("%s-%d-%d-%s", codecName, partition, i, bytes.Repeat([]byte("x"), i%300))
	switch i % 3 {
	case 0:
		r.Key = nil
	case 1:
		r.Key = []byte{}
	case 2:
		r.Key = []byte(strconv.Itoa(i))
	}
	switch i % 5 {
	case 3:
		r.Value = nil
	case 4:
		r.Value = []byte{}
	default:
		r.Value = []byte(text)
	}
	if i%4 == 1 {
		r.Headers = []kgo.RecordHeader{
			{Key: "same", Value: []byte("1")},
			{Key: "same", Value: nil},
			{Key: "", Value: []byte{}},
		}
	}
	return r
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func compare(got, want *kgo.Record, offset int64) {
	if got.Offset != offset {
		fail("partition %d: offset %d where %d was expected", got.Partition, got.Offset, offset)
	}
	if !same(got.Key, want.Key) || !same(got.Value, want.Value) {
		fail("partition %d offset %d: key or value differs", got.Partition, offset)
	}
	if !got.Timestamp.Equal(want.Timestamp) {
		fail("partition %d offset %d: timestamp %v, sent %v", got.Partition, offset, got.Timestamp, want.Timestamp)
	}
	if len(got.Headers) != len(want.Headers) {
		fail("partition %d offset %d: %d headers, sent %d", got.Partition, offset, len(got.Headers), len(want.Headers))
	}
	for i := range got.Headers {
		if got.Headers[i].Key != want.Headers[i].Key || !same(got.Headers[i].Value, want.Headers[i].Value) {
			fail("partition %d offset %d: header %d differs", got.Partition, offset, i)
		}
	}
}

func main() {
	if len(os.Args) != 5 {
		fail("usage: client BOOTSTRAP TOPIC PARTITIONS RECORDS")
	}
	bootstrap, topic := os.Args[1], os.Args[2]
	partitions, err1 := strconv.Atoi(os.Args[3])
	count, err2 := strconv.Atoi(os.Args[4])
	if err1 != nil || err2 != nil {
		fail("PARTITIONS and RECORDS are numbers")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()

	sent := make([][]*kgo.Record, partitions)
	for _, c := range codecs {
		producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(c.use),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()))
		if err != nil {
			fail("producer: %v", err)
		}
		var batch []*kgo.Record
		for i := range count {
			r := record(topic, int32(i%partitions), c.name, i)
			sent[r.Partition] = append(sent[r.Partition], record(topic, r.Partition, c.name, i))
			batch = append(batch, r)
		}
		if err := producer.ProduceSync(ctx, batch...).FirstErr(); err != nil {
			fail("produce with %s: %v", c.name, err)
		}
		producer.Close()
	}

	assigned := map[int32]kgo.Offset{}
	for p := range partitions {
		assigned[int32(p)] = kgo.NewOffset().AtStart()
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned}))
	if err != nil {
		fail("consumer: %v", err)
	}
	defer consumer.Close()
	seen := make([]int, partitions)
	for got := 0; got < count*len(codecs); {
		fetches := consumer.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			fail("fetch: %v", errs)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			p := r.Partition
			if seen[p] >= len(sent[p]) {
				fail("partition %d holds more than was sent", p)
			}
			compare(r, sent[p][seen[p]], int64(seen[p]))
			seen[p]++
			got++
		})
	}
	fmt.Printf("ok %d records\n", count*len(codecs))
}
