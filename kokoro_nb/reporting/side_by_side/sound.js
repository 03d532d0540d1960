// What is heard: every version that can be played runs on one clock, and one of them is let through.

const FADE = 0.005; // seconds from one version to the next: no click, and nothing is missed
const AHEAD = 0.02; // seconds from the order to play to the first sample: all begin together
const contexts = new Map();

// at the sound's own rate: what resamples then is the device, and better than a source node does
const contextAt = (rate) => {
  if (!contexts.has(rate)) contexts.set(rate, new AudioContext({ sampleRate: rate }));
  return contexts.get(rate);
};

// A page embeds a sound once: a version that sounds like an earlier one has a link to it.
const soundOf = (row) => {
  const own = row.querySelector("audio");
  const link = row.querySelector(".again a");
  if (own || !link) return own;
  const there = document.getElementById(link.getAttribute("href").slice(1));
  return there && (there.matches("audio") ? there : there.querySelector("audio"));
};

const decoded = async (audio, rate) => {
  const source = audio.getAttribute("src");
  const bytes = bytesOf(source.slice(source.indexOf(",") + 1));
  return new OfflineAudioContext(1, 1, rate).decodeAudioData(bytes.buffer); // at this rate nothing is resampled
};

class Sound {
  // `part` returns the first sample and the end of what is repeated, or null where nothing is.
  constructor(versions, length, rate, part) {
    this.playable = versions.filter((version) => version.buffer);
    if (this.playable.some(({ buffer }) => buffer.length !== length)) throw new Error("a sound has another length");
    this.length = length;
    this.rate = rate;
    this.part = part;
    this.chosen = this.playable[0];
    this.position = 0; // in samples: where it stands, or stood when it was last asked
    this.voices = null; // of each version, while it plays
  }

  get context() { return contextAt(this.rate); }

  get playing() { return this.voices !== null; }

  play() {
    this.context.resume();
    const part = this.part();
    this.repeated = part; // while it plays: what is asked for may change before it stops
    const [start, end] = part ?? [0, this.length];
    if (this.position < start || this.position >= end - 1) this.position = start;
    this.when = this.context.currentTime + AHEAD;
    this.begun = this.position;
    this.voices = new Map(this.playable.map((version) => [version, this.voice(version, part)]));
  }

  voice(version, part) {
    const { context, rate } = this;
    const source = context.createBufferSource();
    const volume = context.createGain();
    volume.gain.value = version === this.chosen ? 1 : 0;
    source.buffer = version.buffer;
    source.loop = part !== null;
    if (part) [source.loopStart, source.loopEnd] = part.map((sample) => sample / rate);
    source.connect(volume).connect(context.destination);
    source.start(this.when, this.position / rate);
    return { source, volume };
  }

  stop() {
    this.position = this.now();
    this.voices.forEach(({ source }) => { source.stop(); source.disconnect(); });
    this.voices = null;
  }

  // The sample that comes out of the loudspeaker.
  now() {
    if (!this.playing) return this.position;
    const { currentTime, outputLatency } = this.context;
    const at = this.begun + Math.max(0, currentTime - this.when - (outputLatency || 0)) * this.rate;
    const [start, end] = this.repeated ?? [0, Infinity];
    return at >= end ? start + ((at - start) % (end - start)) : Math.min(at, this.length);
  }

  choose(version) {
    this.chosen = version;
    if (!this.playing) return;
    const time = this.context.currentTime;
    this.voices.forEach(({ volume: { gain } }, one) => {
      gain.setValueAtTime(gain.value, time);
      gain.linearRampToValueAtTime(one === version ? 1 : 0, time + FADE);
    });
  }
}
