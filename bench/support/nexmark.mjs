// Nexmark: people, their auctions and bids, as the published generator makes them (github.com/nexmark/nexmark), and its queries
// as pipelines beside a plain evaluation in memory. The proportions are those of its default configuration; the random numbers
// are our own: every event is a function of its number, so it is the same after every restart. `lib` has the exports of
// `reprise/pipeline`: the test passes the sources, the bench the build.

/** Of 50 events 1 is a person, 3 are auctions, 46 are bids. */
const [personProportion, auctionProportion, totalProportion] = [1, 3, 50]
const [firstPersonId, firstAuctionId, firstCategory, categories] = [1000, 1000, 10, 5]
/** Auctions that are open at a time, and people who sell or bid. */
const [auctionsInFlight, activePeople] = [100, 1000]
/** This many auctions and people are named before they exist. */
const [auctionLead, personLead] = [10, 10]
/** One of this many events names anyone; the others name the first of the last hundred. */
const [hotAuctions, hotSellers, hotBidders, hotEvery] = [2, 4, 4, 100]
/** Mean bytes of an event. */
const [personBytes, auctionBytes, bidBytes] = [200, 500, 100]

const states = ['AZ', 'CA', 'ID', 'OR', 'WA', 'WY']
const cities = 'Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne'.split(',')
const firstNames = 'Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter'.split(',')
const lastNames = 'Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris'.split(',')
const letters = 'abcdefghijklmnopqrstuvwxyz '.repeat(30)

/** 32 bits without a pattern. */
function mix(n, salt) {
  let hash = Math.imul(n + 1, 0x9e3779b1) ^ Math.imul(salt + 1, 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2ae35)
  hash = Math.imul(hash ^ (hash >>> 13), 0x27d4eb2f)
  return (hash ^ (hash >>> 16)) >>> 0
}

const below = (limit, n, salt) => mix(n, salt) % limit
const oneOf = (all, n, salt) => all[below(all.length, n, salt)]
/** Most prices are low: from 100 to 100,000,000 cents, evenly distributed by their number of digits. */
const priceOf = (n, salt) => Math.round(10 ** ((mix(n, salt) / 2 ** 32) * 6) * 100)
/** Fills an event up to its mean size, a fifth more or less. */
function padding(bytes, used, n, salt) {
  const wanted = Math.max(0, bytes - used)
  return letters.slice(0, Math.round(wanted * 0.8) + below(Math.round(wanted * 0.4) + 1, n, salt))
}

const lastPerson = (n) =>
  Math.floor(n / totalProportion) * personProportion + Math.min(n % totalProportion, personProportion - 1)
/** The newest auction; that of the previous round while this round has none yet. */
function lastAuction(n) {
  const place = n % totalProportion
  const own = Math.min(place - personProportion, auctionProportion - 1)
  return Math.floor(n / totalProportion) * auctionProportion + (place < personProportion ? -1 : own)
}

function anyPerson(n, salt) {
  const people = lastPerson(n) + 1
  const active = Math.min(people, activePeople)
  return people - active + below(active + personLead, n, salt)
}

function anyAuction(n, salt) {
  const oldest = Math.max(lastAuction(n) - auctionsInFlight, 0)
  return oldest + below(lastAuction(n) - oldest + 1 + auctionLead, n, salt)
}

const hot = (newest) => Math.floor(newest / hotEvery) * hotEvery

/** Events at this rate per second of event time. Default: 10,000, as published. */
export function generator(perSecond = 10_000) {
  const timeOf = (n) => 1_000_000 + Math.floor((n * 1000) / perSecond)
  const event = (n) => {
    const at = timeOf(n)
    const place = n % totalProportion
    if (place < personProportion) return person(n, at)
    if (place < personProportion + auctionProportion) {
      // On average, open until as many further auctions have begun as are open at a time.
      const horizonMs = timeOf(n + Math.floor((auctionsInFlight * totalProportion) / auctionProportion)) - at
      return auction(n, at, at + 1 + below(Math.max(horizonMs * 2, 1), n, 10))
    }
    return bid(n, at)
  }
  return { event, events: (count) => Array.from({ length: count }, (_, n) => event(n)) }
}

function person(n, at) {
  const name = `${oneOf(firstNames, n, 1)} ${oneOf(lastNames, n, 2)}`
  const email = `${letters.slice(below(20, n, 3), 27)}@example.com`
  const extra = padding(personBytes, 60, n, 6)
  const id = firstPersonId + lastPerson(n)
  return { kind: 'person', id, name, email, city: oneOf(cities, n, 4), state: oneOf(states, n, 5), at, extra }
}

function auction(n, at, expires) {
  const isHot = below(hotSellers, n, 11) > 0
  const initial = priceOf(n, 14)
  return {
    ...{ kind: 'auction', id: firstAuctionId + lastAuction(n) },
    seller: firstPersonId + (isHot ? hot(lastPerson(n)) : anyPerson(n, 12)),
    category: firstCategory + below(categories, n, 13),
    ...{ initial, reserve: initial + priceOf(n, 15), expires, at },
    extra: padding(auctionBytes, 60, n, 16),
  }
}

function bid(n, at) {
  const isHotAuction = below(hotAuctions, n, 21) > 0
  const isHotBidder = below(hotBidders, n, 23) > 0
  return {
    ...{ kind: 'bid', at },
    auction: firstAuctionId + (isHotAuction ? hot(lastAuction(n)) : anyAuction(n, 22)),
    // The second of the hundred, so that hot bidders and hot sellers differ.
    bidder: firstPersonId + (isHotBidder ? hot(lastPerson(n)) + 1 : anyPerson(n, 24)),
    price: priceOf(n, 25),
    extra: padding(bidBytes, 32, n, 26),
  }
}

export const { event, events } = generator()

const isPerson = (each) => each.kind === 'person'
const isAuction = (each) => each.kind === 'auction'
const isBid = (each) => each.kind === 'bid'
const isLocal = ({ state }) => state === 'OR' || state === 'ID' || state === 'CA'
const suggested = (person, auction) => ({
  name: person.name,
  city: person.city,
  state: person.state,
  auction: auction.id,
})
const mean = (all) => all.reduce((sum, price) => sum + price, 0) / all.length
const side = (auction) => `side-${auction % 100}`

/** Auctions that are over, each with its highest bid. */
function winning(lib, all) {
  return all
    .filter((each) => !isPerson(each))
    .keyBy((each) => (isAuction(each) ? each.id : each.auction))
    .process('winning', {
      emits: lib.carries(),
      state: { auction: lib.valueState(), highest: lib.valueState() },
      onRecord(each, { state, setTimer }) {
        if (isAuction(each)) {
          state.auction.set(each)
          // A bid at that moment still counts.
          setTimer(each.expires + 1)
          return
        }
        const auction = state.auction.get()
        if (!auction || each.at < auction.at || each.at > auction.expires) return
        if (each.price > (state.highest.get() ?? 0)) state.highest.set(each.price)
      },
      onTimer(_, { state, emit }) {
        const { id, seller, category, expires } = state.auction.get()
        const price = state.highest.get()
        if (price !== undefined) emit({ id, seller, category, expires, price })
        state.auction.clear()
        state.highest.clear()
      },
    })
}

function plainWinning(all) {
  const open = new Map()
  for (const each of all) {
    if (isAuction(each)) open.set(each.id, { auction: each, price: 0 })
    else if (isBid(each)) {
      const held = open.get(each.auction)
      if (!held || each.at < held.auction.at || each.at > held.auction.expires) continue
      if (each.price > held.price) held.price = each.price
    }
  }
  return [...open.values()]
    .filter(({ price }) => price > 0)
    .sort((a, b) => a.auction.expires - b.auction.expires)
    .map(({ auction: { id, seller, category, expires }, price }) => ({ id, seller, category, expires, price }))
}

function lastTen(prices, price) {
  return [...prices, price].slice(-10)
}

function grouped(all, keyOf) {
  const groups = new Map()
  for (const each of all) {
    const key = keyOf(each)
    const group = groups.get(key)
    if (group) group.push(each)
    else groups.set(key, [each])
  }
  return groups
}

/** For each query: its pipeline over the stream of all events, and the result of a plain evaluation of all events. */
export const queries = {
  q0: {
    draw: (_, all) => all.filter(isBid),
    plain: (all) => all.filter(isBid),
  },
  q1: {
    draw: (_, all) => all.filter(isBid).map((bid) => ({ ...bid, price: bid.price * 0.908 })),
    plain: (all) => all.filter(isBid).map((bid) => ({ ...bid, price: bid.price * 0.908 })),
  },
  q2: {
    draw: (_, all) =>
      all.filter((each) => isBid(each) && each.auction % 123 === 0).map(({ auction, price }) => ({ auction, price })),
    plain: (all) =>
      all.filter((each) => isBid(each) && each.auction % 123 === 0).map(({ auction, price }) => ({ auction, price })),
  },
  q3: {
    draw: (lib, all) =>
      all
        .filter((each) => (isPerson(each) && isLocal(each)) || (isAuction(each) && each.category === 10))
        .keyBy((each) => (isPerson(each) ? each.id : each.seller))
        .process('suggested', {
          emits: lib.carries(),
          state: { person: lib.valueState(), waiting: lib.listState() },
          onRecord(each, { state, emit }) {
            const person = state.person.get()
            if (isAuction(each)) return person ? emit(suggested(person, each)) : state.waiting.add(each)
            state.person.set(each)
            for (const auction of state.waiting.get()) emit(suggested(each, auction))
            state.waiting.clear()
          },
        }),
    plain(all) {
      const people = new Map(all.filter((each) => isPerson(each) && isLocal(each)).map((each) => [each.id, each]))
      const auctions = all.filter((each) => isAuction(each) && each.category === 10 && people.has(each.seller))
      return auctions.map((auction) => suggested(people.get(auction.seller), auction))
    },
  },
  q4: {
    draw: (lib, all) =>
      winning(lib, all)
        .keyBy(({ category }) => category)
        .aggregate(
          'average',
          lib.average(({ price }) => price),
        ),
    /** A running average: the last one of each category is compared. */
    last: ({ key }) => key,
    plain: (all) =>
      [...grouped(plainWinning(all), ({ category }) => category)].map(([key, own]) => ({
        key,
        value: mean(own.map(({ price }) => price)),
      })),
  },
  q5: {
    draw: (lib, all) =>
      all
        .filter(isBid)
        .keyBy(({ auction }) => auction)
        .window('counts', lib.sliding('10s', '2s'))
        .aggregate(lib.count())
        .keyBy(({ end }) => end)
        .window('hottest', lib.tumbling('2s'))
        .aggregate(lib.list())
        .flatMap(({ key, value }) => {
          const most = Math.max(...value.map((each) => each.value))
          return value
            .filter((each) => each.value === most)
            .map((each) => ({ end: key, auction: each.key, bids: most }))
        }),
    plain(all) {
      const windows = new Map()
      for (const { auction, at } of all.filter(isBid)) {
        for (let start = Math.floor(at / 2000) * 2000; start > at - 10_000; start -= 2000) {
          const counts = windows.get(start + 10_000) ?? new Map()
          windows.set(start + 10_000, counts)
          counts.set(auction, (counts.get(auction) ?? 0) + 1)
        }
      }
      return [...windows].flatMap(([end, counts]) => {
        const most = Math.max(...counts.values())
        return [...counts].filter(([, bids]) => bids === most).map(([auction, bids]) => ({ end, auction, bids }))
      })
    },
  },
  q6: {
    draw: (lib, all) =>
      winning(lib, all)
        .keyBy(({ seller }) => seller)
        .process('last-ten', {
          emits: lib.carries(),
          state: { prices: lib.valueState() },
          onRecord({ seller, price }, { state, emit }) {
            const prices = lastTen(state.prices.get() ?? [], price)
            state.prices.set(prices)
            emit({ seller, average: mean(prices) })
          },
        }),
    plain: (all) =>
      [...grouped(plainWinning(all), ({ seller }) => seller)].flatMap(([seller, own]) => {
        let prices = []
        return own.map(({ price }) => {
          prices = lastTen(prices, price)
          return { seller, average: mean(prices) }
        })
      }),
  },
  /** Every bid with the highest price of its window: there may be several. */
  q7: {
    draw: (lib, all) => {
      const highest = (best, bid) => {
        if (best.length > 0 && bid.price < best[0].price) return best
        return best.length > 0 && bid.price === best[0].price ? [...best, bid] : [bid]
      }
      return all
        .filter(isBid)
        .keyBy(() => 'all')
        .window('highest', lib.tumbling('10s'))
        .aggregate({
          ...{ kind: 'highest', initial: () => [], add: highest, result: (best) => best },
          merge: (a, b) => b.reduce(highest, a),
        })
        .flatMap(({ value }) => value)
    },
    plain: (all) =>
      [...grouped(all.filter(isBid), ({ at }) => Math.floor(at / 10_000)).values()].flatMap((own) => {
        const most = own.reduce((highest, { price }) => Math.max(highest, price), 0)
        return own.filter(({ price }) => price === most)
      }),
  },
  /** People who registered and sold within one window, each once per window however many auctions they have. */
  q8: {
    draw(lib, all) {
      const people = all.filter(isPerson).keyBy(({ id }) => id)
      const sellers = all
        .filter(isAuction)
        .keyBy(({ seller }) => seller)
        .window('sellers', lib.tumbling('10s'))
        .aggregate(lib.count())
      return people.joinWindow('new', sellers, lib.tumbling('10s'), ({ id, name }, _, { start }) => ({
        id,
        name,
        start,
      }))
    },
    plain(all) {
      const windowOf = ({ at }) => Math.floor(at / 10_000) * 10_000
      const sold = new Set(all.filter(isAuction).map((auction) => `${auction.seller}/${windowOf(auction)}`))
      return all
        .filter((each) => isPerson(each) && sold.has(`${each.id}/${windowOf(each)}`))
        .map((each) => ({ id: each.id, name: each.name, start: windowOf(each) }))
    },
  },
  q11: {
    draw: (lib, all) =>
      all
        .filter(isBid)
        .keyBy(({ bidder }) => bidder)
        .window('sessions', lib.session('10s'))
        .aggregate(lib.count()),
    plain: (all) =>
      [...grouped(all.filter(isBid), ({ bidder }) => bidder)].flatMap(([key, own]) => {
        const sessions = []
        for (const { at } of own) {
          const last = sessions.at(-1)
          if (last && at <= last.end) Object.assign(last, { end: at + 10_000, value: last.value + 1 })
          else sessions.push({ key, start: at, end: at + 10_000, value: 1 })
        }
        return sessions
      }),
  },
  /** Windows of processing time: their number depends on the clock, the sum of each bidder does not. */
  q12: {
    draw: (lib, all) =>
      all
        .filter(isBid)
        .keyBy(({ bidder }) => bidder)
        .window('by-the-clock', lib.tumbling(10))
        .aggregate(lib.count()),
    time: () => Date.now(),
    sums: ({ key, value }) => [key, value],
    plain: (all) =>
      [...grouped(all.filter(isBid), ({ bidder }) => bidder)].map(([key, own]) => ({ key, value: own.length })),
  },
  q13: {
    draw: (_, all) =>
      all
        .filter(isBid)
        .call('side', async (bid) => ({ ...bid, side: side(bid.auction) }), { concurrency: 8, ordered: true }),
    plain: (all) => all.filter(isBid).map((bid) => ({ ...bid, side: side(bid.auction) })),
  },
}
