// Group members with a Go client, as many in one process as are asked for (members.py has the commands and what is
// said).
//
// usage: members CLIENT BOOTSTRAP           CLIENT: franz-go or sarama
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const heartbeat = 500 * time.Millisecond

var speech sync.Mutex

// member is what both clients have in common: what it was asked to be, and what it says.
type member struct {
	bootstrap string
	wanted    map[string]string
	mutex     sync.Mutex
	held      map[string]bool
	committed int
}

func (m *member) say(format string, args ...any) {
	speech.Lock()
	defer speech.Unlock()
	fmt.Printf(m.wanted["name"]+" "+format+"\n", args...)
}

// told is called with the partitions that the member has from now on, or has not any more.
func (m *member) told(places map[string][]int32, more bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for topic, partitions := range places {
		for _, partition := range partitions {
			place := fmt.Sprintf("%s-%d", topic, partition)
			if more {
				m.held[place] = true
			} else {
				delete(m.held, place)
			}
		}
	}
	var names []string
	for place := range m.held {
		names = append(names, place)
	}
	slices.Sort(names)
	m.say("has %s", strings.Join(names, ","))
}

func (m *member) read(topic string, partition int32, offset int64, value []byte) {
	m.say("read %s-%d %d %s", topic, partition, offset, value)
}

// hasCommitted is called with how many more records that was.
func (m *member) hasCommitted(count int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.committed += count
	m.say("committed %d", m.committed)
}

func (m *member) session() time.Duration {
	milliseconds, err := time.ParseDuration(m.wanted["session_ms"] + "ms")
	if err != nil {
		panic(err)
	}
	return milliseconds
}

var clients = map[string]func(context.Context, *member) error{"franz-go": franz, "sarama": saramaMember}

func main() {
	run := clients[os.Args[1]]
	var all sync.WaitGroup
	ends := map[string]context.CancelFunc{}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Fields(commands.Text())
		wanted := map[string]string{}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			wanted[key] = value
		}
		if words[0] == "close" {
			ends[wanted["name"]]()
			continue
		}
		m := &member{bootstrap: os.Args[2], wanted: wanted, held: map[string]bool{}}
		ctx, end := context.WithCancel(context.Background())
		ends[wanted["name"]] = end
		all.Go(func() {
			if err := run(ctx, m); err != nil {
				m.say("failed %v", err)
				return
			}
			m.say("closed")
		})
	}
	for _, end := range ends {
		end()
	}
	all.Wait()
}
