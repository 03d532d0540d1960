// What is visible: the part of the sound from one sample to another.

const LEAST = 24; // samples in view when nothing can be enlarged further

class View {
  constructor(length, rate) {
    this.length = length;
    this.rate = rate;
    this.from = 0;
    this.to = length;
  }

  get width() { return this.to - this.from; }

  look(from, to) {
    const width = limit(to - from, Math.min(LEAST, this.length), this.length);
    this.from = limit(from, 0, this.length - width);
    this.to = this.from + width;
  }

  // Where a sample lies: 0 is the left edge, 1 the right one.
  share(sample) { return (sample - this.from) / this.width; }

  // A sample in seconds, with as many digits as this part needs.
  seconds(sample) {
    const digits = limit(Math.ceil(Math.log10((10 * this.rate) / this.width)) + 1, 2, 5);
    return (sample / this.rate).toFixed(digits);
  }

  // Samples for ticks over so many pixels: at round seconds that are whole samples; closer together, at round numbers
  // of samples. The last one leaves room for its label.
  ticks(pixels) {
    const wanted = this.width / Math.max(2, pixels / 110);
    const round = [0, 1, 2, 3, 4, 5, 6].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));
    const seconds = round.map((one) => (one * this.rate) / 1e4).filter(Number.isInteger);
    const samples = round.filter((one) => one < this.rate / 1e3);
    const step = Math.min(...[...seconds, ...samples].filter((one) => one >= wanted), this.length);
    const end = this.to - (70 / pixels) * this.width;
    const ticks = [];
    for (let at = Math.ceil(this.from / step) * step; at <= end; at += step) ticks.push(at);
    return ticks;
  }
}
