// Draws the report's charts as SVG from the JSON in the page. Each chart is a slider for the keyboard and for screen
// readers: arrow keys move through its points or tensors, and the value is read out.
(() => {
  'use strict';
  const facts = JSON.parse(document.getElementById('facts').textContent);
  const root = document.documentElement;
  const drawn = new Set();
  let printing = false;

  // --- small tools ---
  const make = (tag, attributes, parent, text) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const name in attributes) element.setAttribute(name, attributes[name]);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  };
  const html = (tag, attributes, parent, text) => {
    const element = document.createElement(tag);
    for (const name in attributes) element.setAttribute(name, attributes[name]);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  };
  const isNumber = (x) => typeof x === 'number' && isFinite(x);
  const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
  const bytes = (n) => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let i = 0;
    while (Math.abs(n) >= 1024 && i < 4) { n /= 1024; ++i; }
    return (i === 0 || n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)) + ' ' + units[i];
  };
  const plain = (n) => {
    if (!isNumber(n)) return '–';
    const size = Math.abs(n);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return n.toExponential(1).replace('e+', 'e');
    return String(+n.toPrecision(3));
  };
  const percent = (n) => (isNumber(n) ? +(100 * n).toPrecision(3) + ' %' : '–');
  const seconds = (s) => (s >= 1 ? s.toPrecision(3) + ' s' : s >= 1e-3 ? (s * 1e3).toPrecision(3) + ' ms' : (s * 1e6).toPrecision(3) + ' µs');
  const formats = { bytes, plain, percent };

  const niceStep = (span, count, binary) => {
    const raw = span / Math.max(1, count);
    if (binary) {
      let unit = 1;
      while (unit * 1024 <= raw) unit *= 1024;
      for (const m of [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 512, 1024]) if (m * unit >= raw) return m * unit;
    }
    const unit = Math.pow(10, Math.floor(Math.log10(raw)));
    for (const m of [1, 2, 5, 10]) if (m * unit >= raw) return m * unit;
    return 10 * unit;
  };
  const ticks = (low, high, count, binary) => {
    const step = niceStep(high - low || 1, count, binary), list = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && list.length < 50; ++i) list.push(i * step);
    return list;
  };
  const logTicks = (low, high) => {
    const list = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e) {
      for (const m of [1, 2, 5]) {
        const value = m * Math.pow(10, e);
        if (value >= low && value <= high) list.push([value, m]);
      }
    }
    return list.length > 7 ? list.filter((t) => t[1] === 1).map((t) => t[0]) : list.map((t) => t[0]);
  };

  // What every chart has: a place to draw in, a slider's role, a line of text, and a new drawing when the width changes.
  const charts = [];
  const widthOf = (canvas, wide) => (printing ? (wide ? 660 : 320) : Math.max(240, canvas.clientWidth));
  const slider = (canvas, name, count, describe, move) => {
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'slider');
    canvas.setAttribute('aria-label', name);
    canvas.setAttribute('aria-valuemin', 1);
    canvas.setAttribute('aria-valuemax', count);
    canvas.setAttribute('aria-valuenow', 1);
    canvas.setAttribute('aria-valuetext', describe(0));
    canvas.addEventListener('keydown', (event) => {
      if (move(event.key) === true) event.preventDefault();
    });
  };

  // --- charts of numbers over updates ---
  const cursors = [];
  const lineChart = (figure, spec) => {
    const canvas = figure.querySelector('[data-canvas]'), readout = figure.querySelector('[data-readout]');
    const series = spec.series.filter((s) => s.points.some((p) => isNumber(p[1])));
    if (series.length === 0) {
      html('p', { class: 'quiet' }, canvas, spec.empty || 'Nothing has been measured yet.');
      drawn.add(figure.dataset.chart);
      return;
    }
    const format = formats[spec.format];
    const all = series.flatMap((s) => s.points).filter((p) => isNumber(p[1]));
    const steps = [...new Set(all.map((p) => p[0]))].sort((a, b) => a - b);
    const values = all.map((p) => p[1]).concat((spec.refs || []).map((r) => r.at));
    let low = Math.min(...values), high = Math.max(...values);
    const log = spec.log && low > 0 && high / low > 30;
    if (!log) {
      if (spec.zero) low = Math.min(0, low);
      if (spec.most !== undefined) high = Math.max(Math.min(spec.most, high * 1.1), high);
      const room = (high - low || Math.abs(high) || 1) * 0.06;
      if (low !== 0) low -= room;
      high += spec.most !== undefined && high >= spec.most ? 0 : room;
      if (spec.zero && low < 0 && Math.min(...values) >= 0) low = 0;
    } else {
      low /= 1.2;
      high *= 1.2;
    }
    let svg, x, y, marker, dots, at = steps.length - 1;
    const nearest = (s, step) => {
      let best = null;
      for (const p of s.points) if (isNumber(p[1]) && (best === null || Math.abs(p[0] - step) < Math.abs(best[0] - step))) best = p;
      return best;
    };
    const describe = (i) => {
      const step = steps[clamp(i, 0, steps.length - 1)];
      return 'update ' + step + ': ' + series.map((s) => {
        const p = nearest(s, step);
        return s.name + ' ' + format(p[1]) + (p[0] === step ? '' : ' (update ' + p[0] + ')');
      }).join(', ');
    };
    const show = (i, tell) => {
      at = clamp(i, 0, steps.length - 1);
      const step = steps[at];
      marker.setAttribute('x1', x(step));
      marker.setAttribute('x2', x(step));
      marker.removeAttribute('visibility');
      dots.replaceChildren();
      for (const s of series) {
        const p = nearest(s, step);
        make('circle', { cx: x(p[0]), cy: y(p[1]), r: 4, class: 'dot f' + s.key }, dots);
      }
      readout.textContent = describe(at);
      canvas.setAttribute('aria-valuenow', at + 1);
      canvas.setAttribute('aria-valuetext', describe(at));
      if (tell) for (const other of cursors) if (other.figure !== figure) other.to(step);
    };
    const draw = () => {
      const width = widthOf(canvas, false), height = (printing ? 170 : 220) + (series.length > 3 ? 16 : 0);
      const yTicks = log ? logTicks(low, high) : ticks(low, high, 5, spec.format === 'bytes');
      const left = 12 + 6.6 * Math.max(...yTicks.map((t) => format(t).length)), right = 14, bottom = 26;
      const rows = series.length > 1 ? layLegend(left, width - right) : 0, top = 12 + 16 * rows;
      const xLow = spec.fromZero === false ? steps[0] : 0, xHigh = Math.max(spec.last || 0, steps[steps.length - 1], xLow + 1);
      x = (v) => left + ((v - xLow) / (xHigh - xLow)) * (width - left - right);
      y = (v) => {
        const share = log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
        return height - bottom - share * (height - top - bottom);
      };
      const fresh = make('svg', { viewBox: '0 0 ' + width + ' ' + height, 'aria-hidden': true });
      for (const t of yTicks) {
        make('line', { class: 'grid', x1: left, x2: width - right, y1: y(t), y2: y(t) }, fresh);
        make('text', { x: left - 6, y: y(t) + 4, 'text-anchor': 'end' }, fresh, format(t));
      }
      make('line', { class: 'axis', x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }, fresh);
      for (const t of ticks(xLow, xHigh, Math.max(2, width / 110))) {
        make('text', { x: x(t), y: height - 8, 'text-anchor': 'middle' }, fresh, plain(t));
      }
      for (const ref of spec.refs || []) {
        make('line', { class: 'ref', x1: left, x2: width - right, y1: y(ref.at), y2: y(ref.at) }, fresh);
        make('text', { class: 'reftext', x: width - right, y: y(ref.at) - 4, 'text-anchor': 'end' }, fresh, ref.name);
      }
      for (const s of series) {
        let path = '', open = false;
        for (const p of s.points) {
          if (isNumber(p[1])) path += (open ? 'L' : 'M') + x(p[0]).toFixed(1) + ' ' + y(p[1]).toFixed(1);
          open = isNumber(p[1]);
        }
        make('path', { class: 'line s' + s.key + (s.dash ? ' ' + s.dash : ''), d: path }, fresh);
        const known = s.points.filter((p) => isNumber(p[1]));
        if (known.length === 1 || (known.length <= 40 && s.dots !== false)) {
          for (const p of known) make('circle', { class: 'dot f' + s.key, cx: x(p[0]), cy: y(p[1]), r: 3 }, fresh);
        }
      }
      if (rows > 0) drawLegend(fresh);
      marker = make('line', { class: 'cursor', y1: top, y2: height - bottom, visibility: 'hidden' }, fresh);
      dots = make('g', {}, fresh);
      if (svg) svg.replaceWith(fresh); else canvas.appendChild(fresh);
      svg = fresh;
    };
    // The legend stands in rows over the drawing.
    let places = [];
    const layLegend = (left, right) => {
      let column = left, row = 0;
      places = series.map((s) => {
        const size = 36 + 6.8 * s.name.length;
        if (column > left && column + size > right) { column = left; ++row; }
        column += size;
        return [column - size, 9 + 16 * row];
      });
      return row + 1;
    };
    const drawLegend = (parent) => series.forEach((s, i) => {
      const [column, row] = places[i];
      make('line', { class: 'line s' + s.key + (s.dash ? ' ' + s.dash : ''), x1: column, x2: column + 20, y1: row, y2: row }, parent);
      make('text', { x: column + 25, y: row + 4 }, parent, s.name);
    });
    draw();
    readout.textContent = describe(at);
    charts.push({ canvas, draw });
    cursors.push({ figure, to: (step) => show(steps.reduce((best, s, i) => (Math.abs(s - step) < Math.abs(steps[best] - step) ? i : best), 0), false) });
    slider(canvas, spec.title + ', over updates; arrow keys move through them', steps.length, describe, (key) => {
      const jump = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10 }[key];
      if (jump) show(at + jump, true);
      else if (key === 'Home') show(0, true);
      else if (key === 'End') show(steps.length - 1, true);
      else return false;
      return true;
    });
    canvas.addEventListener('focus', () => show(at, false));
    canvas.addEventListener('pointermove', (event) => {
      const box = svg.getBoundingClientRect(), width = svg.viewBox.baseVal.width;
      const place = ((event.clientX - box.left) / box.width) * width;
      let best = 0;
      for (let i = 1; i < steps.length; ++i) if (Math.abs(x(steps[i]) - place) < Math.abs(x(steps[best]) - place)) best = i;
      show(best, true);
    });
    drawn.add(figure.dataset.chart);
  };

  const seriesOf = (column, name, dash) => facts.runs.filter((run) => run.steps).map((run) => ({
    name: facts.runs.length > 1 ? run.name + (name ? ' ' + name : '') : name || run.name,
    key: run.key,
    dash,
    points: run.steps.step.map((step, i) => [step, run.steps[column][i]]),
  }));
  const evaluated = (pick, name, key, dash) => facts.runs.filter((run) => run.evaluations.length > 0).map((run) => ({
    name: facts.runs.length > 1 ? run.name + ' ' + name : name,
    key: key || run.key,
    dash,
    points: run.evaluations.map((e) => [e.step, pick(e)]),
  }));
  const last = Math.max(0, ...facts.runs.map((run) => run.updates || 0));
  const dashes = ['', 'second', 'third'];
  const keys = ['a', 'b', 'c', 'd', 'e', 'f'];
  const single = facts.runs.length === 1;
  const specs = {
    memory: () => ({
      title: 'Memory of the process', format: 'bytes', zero: true, last,
      series: seriesOf('resident', 'resident').map((s) => ({ ...s, dots: false })),
      refs: single ? facts.runs[0].limits
        : facts.runs.flatMap((run) => run.limits.slice(0, 1).map((limit) => ({ at: limit.at, name: run.name + ': ' + limit.name }))),
    }),
    loss: () => ({
      title: 'Loss', format: 'plain', log: true, zero: true, last,
      series: seriesOf('loss', single ? 'training' : '').map((s) => ({ ...s, dots: false }))
        .concat(evaluated((e) => e.loss, 'evaluation', single ? 'b' : '', 'second')),
      empty: 'No update has been logged yet.',
    }),
    metrics: () => ({
      title: 'Scores', format: 'plain', zero: true, most: 1, last,
      series: facts.metrics.slice(0, single ? 6 : 1).flatMap((name, i) =>
        evaluated((e) => e.metrics[name], name, single ? keys[i] : '', single ? dashes[i % 3] : '')),
      empty: 'The run has not been evaluated.',
    }),
    rate: () => ({
      title: 'Learning rate', format: 'plain', zero: true, last,
      series: seriesOf('rate', '').map((s) => ({ ...s, name: single ? 'learning rate' : s.name, dots: false })),
    }),
    norm: () => ({
      title: 'Gradient norm', format: 'plain', log: true, zero: true, last,
      series: seriesOf('norm', '').map((s) => ({ ...s, name: single ? 'norm' : s.name, dots: false })),
    }),
    speed: () => ({
      title: 'Pages per second', format: 'plain', zero: true, last,
      series: seriesOf('speed', '').map((s) => ({ ...s, name: single ? 'pages/s' : s.name, dots: false })),
    }),
    wait: () => ({
      title: 'Waiting for data', format: 'percent', zero: true, last,
      series: seriesOf('wait', '').map((s) => ({ ...s, name: single ? 'waiting' : s.name, dots: false })),
    }),
  };

  // --- the map of the arena ---
  const kindClass = (tensor) => {
    const kind = facts.kinds[tensor[1]], lever = facts.levers[tensor[2]];
    if (lever === 'recomputed') return 'again';
    if (lever === 'offloaded') return 'offloaded';
    return { parameter: 'parameter', 'frozen parameter': 'frozen', 'optimizer state': 'state', 'summed gradient': 'summed',
      batch: 'batch', gradient: 'gradient', scratch: 'scratch' }[kind] || (lever === 'kept' ? 'kept' : 'brief');
  };
  const leverText = (tensor) => {
    const kind = facts.kinds[tensor[1]], lever = facts.levers[tensor[2]];
    if (lever === 'recomputed') return kind + ', recomputed: dropped after forward and computed again in backward';
    if (lever === 'offloaded') return kind + ', offloaded: it is here only while it is used';
    if (tensor.length === 5) return kind + ', always in memory';
    if (lever === 'kept') return kind + ', kept for a later phase';
    return kind + ', needed briefly';
  };
  // Names without what all of them share, as they fit into a band.
  const shortName = (name) => name.replace(/^.*?encoder\.layer\./, 'layer.').replace(/^layoutlm(v\d)?\.|^bert\.|^lilt\.|^roberta\./, '')
    .replace(/ \(scratch\)$/, '');
  const most = Math.max(1, ...facts.runs.map((run) => (run.arena ? run.arena.bytes : 0)));
  const mostMoving = Math.max(1, ...facts.runs.flatMap((run) => (run.arena ? run.arena.programs.map((p) => p.bytes) : [])));

  const arenaMap = (figure, run) => {
    const canvas = figure.querySelector('[data-canvas]'), readout = figure.querySelector('[data-readout]');
    const tools = figure.querySelector('[data-tools]'), arena = run.arena;
    let program = arena.programs.reduce((best, p) => (p.bytes > best.bytes ? p : best), arena.programs[0]);
    let whole = false, svg, shown = [], rects = [], chosen = -1, times;

    const choose = (legendText, name, options, on) => {
      const set = html('fieldset', {}, tools);
      html('legend', {}, set, legendText);
      options.forEach(([text, value], i) => {
        const label = html('label', {}, set);
        const input = html('input', { type: 'radio', name: name + run.index, value: i }, label);
        input.checked = value === (name === 'program' ? program : whole);
        label.append(text);
        input.addEventListener('change', () => { on(value); chosen = -1; draw(); });
      });
      tools.hidden = false;
    };
    if (arena.programs.length > 1) choose('program', 'program', arena.programs.map((p) => [p.kind, p]), (p) => { program = p; });
    if (arena.persistent_bytes > 0) {
      choose('show', 'whole', [['what comes and goes', false], ['the whole arena', true]], (value) => { whole = value; });
    }

    // Widths are the nodes' estimated times; very short ones are widened, so that nothing is invisible.
    const layTime = () => {
      const sum = program.seconds.reduce((a, b) => a + b, 0) || 1, floor = (0.12 * sum) / Math.max(1, program.seconds.length);
      times = [0];
      for (const s of program.seconds) times.push(times[times.length - 1] + Math.max(s, floor));
    };
    const nodeText = (n) => (n < program.nodes.length ? program.nodes[n] + ' (' + program.ops[n] + ')' : 'the end');
    const describe = (i) => {
      const t = shown[clamp(i, 0, shown.length - 1)];
      if (!t) return 'nothing is in the arena';
      const life = t.length === 5 ? '' : '; from ' + nodeText(t[5]) + ' to ' + nodeText(Math.max(t[5], t[6] - 1));
      return t[0] + ': ' + bytes(t[4]) + ', ' + leverText(t) + '; at ' + bytes(t[3]) + life;
    };
    const show = (i) => {
      if (chosen >= 0 && rects[chosen]) rects[chosen].classList.remove('on');
      chosen = clamp(i, 0, shown.length - 1);
      if (!rects[chosen]) return;
      rects[chosen].classList.add('on');
      rects[chosen].parentNode.appendChild(rects[chosen]);
      const text = describe(chosen), cut = text.indexOf(': ');
      readout.replaceChildren();
      html('b', {}, readout, shown[chosen][0]);
      readout.append(text.slice(shown[chosen][0].length));
      canvas.setAttribute('aria-valuenow', chosen + 1);
      canvas.setAttribute('aria-valuetext', text);
      return cut;
    };
    const draw = () => {
      layTime();
      const width = widthOf(canvas, true), height = printing ? 330 : width < 560 ? 340 : 430;
      const low = whole ? 0 : arena.persistent_bytes, high = whole ? most : low + mostMoving;
      const list = ticks(0, high - low, 6, true);
      const left = 12 + 6.6 * Math.max(...list.map((t) => bytes(t).length)), right = 6, top = 34, bottom = 8;
      const end = times[times.length - 1] || 1;
      const x = (node) => left + (times[clamp(node, 0, times.length - 1)] / end) * (width - left - right);
      const y = (offset) => height - bottom - ((offset - low) / (high - low)) * (height - top - bottom);
      const fresh = make('svg', { viewBox: '0 0 ' + width + ' ' + height, 'aria-hidden': true });
      for (const t of list) {
        make('line', { class: 'grid', x1: left, x2: width - right, y1: y(low + t), y2: y(low + t) }, fresh);
        make('text', { x: left - 6, y: y(low + t) + 4, 'text-anchor': 'end' }, fresh, bytes(t));
      }
      // The phases' names and times, above the drawing.
      let from = 0;
      const phases = [];
      program.phases.forEach((phase, n) => { if (n > 0 && phase !== program.phases[n - 1]) { phases.push([from, n]); from = n; } });
      phases.push([from, program.phases.length]);
      // Updates in backward change phases all the time: then all that follows forward is one piece.
      const mixed = phases.length > 8;
      if (mixed) phases.splice(1, phases.length, [phases[0][1], program.phases.length]);
      for (const [a, b] of phases) {
        const wide = x(b) - x(a), sum = program.seconds.slice(a, b).reduce((s, v) => s + v, 0);
        if (wide < 3) continue;
        make('rect', { class: 'phase', x: x(a) + 0.5, y: 2, width: wide - 1, height: 18, rx: 3 }, fresh);
        const name = mixed && a > 0 ? 'backward with updates' : facts.phases[program.phases[a]], long = name + ' ' + seconds(sum);
        const text = wide > 7 * long.length ? long : wide > 7 * name.length ? name : '';
        make('text', { x: (x(a) + x(b)) / 2, y: 15, 'text-anchor': 'middle' }, fresh, text);
      }
      shown = (whole ? arena.persistent : []).concat(program.tensors);
      const group = make('g', {}, fresh), names = make('g', {}, fresh);
      rects = shown.map((t, i) => {
        const forever = t.length === 5;
        const x1 = forever ? x(0) : x(t[5]), x2 = forever ? x(times.length) : x(t[6]), y1 = y(t[3] + t[4]), y2 = y(t[3]);
        const wide = Math.max(1, x2 - x1), high1 = Math.max(0.5, y2 - y1);
        const rect = make('rect', { class: 'tensor ' + kindClass(t), 'data-i': i, x: x1.toFixed(1), y: y1.toFixed(2),
          width: wide.toFixed(1), height: high1.toFixed(2) }, group);
        if (high1 < 1.5) rect.style.strokeWidth = 0;
        const name = shortName(t[0]);
        if (high1 >= 13 && wide > 30) {
          const room = Math.floor((wide - 8) / 5.6);
          if (room >= Math.min(name.length, 9)) {
            make('text', { class: 'name', x: x1 + 4, y: (y1 + y2) / 2 + 3.5 }, names,
              name.length <= room ? name : name.slice(0, room - 1) + '…');
          }
        }
        return rect;
      });
      if (program.peak >= 0) {
        const middle = (x(program.peak) + x(program.peak + 1)) / 2;
        make('line', { class: 'peak', x1: middle, x2: middle, y1: top - 10, y2: height - bottom }, fresh);
        const late = middle > width / 2;
        make('text', { class: 'peaktext', x: middle + (late ? -5 : 5), y: top - 2, 'text-anchor': late ? 'end' : 'start' }, fresh,
          'peak: ' + bytes(program.peak_bytes + (whole ? arena.persistent_bytes : 0)));
      }
      if (svg) svg.replaceWith(fresh); else canvas.appendChild(fresh);
      svg = fresh;
      readout.textContent = 'Point at a band, or press arrow keys: left and right by time, up and down by size.';
      canvas.setAttribute('aria-valuemax', Math.max(1, shown.length));
    };
    draw();
    charts.push({ canvas, draw });
    const bySize = () => shown.map((_, i) => i).sort((a, b) => shown[b][4] - shown[a][4]);
    slider(canvas, 'Map of the arena' + (single ? '' : ' of ' + run.name) + '; left and right go by time, up and down by size, Home to the largest',
      Math.max(1, shown.length), describe, (key) => {
        const order = bySize(), rank = order.indexOf(chosen);
        if (key === 'ArrowRight') show(chosen + 1);
        else if (key === 'ArrowLeft') show(chosen - 1);
        else if (key === 'ArrowUp') show(order[clamp(rank - 1, 0, order.length - 1)]);
        else if (key === 'ArrowDown') show(order[clamp(rank + 1, 0, order.length - 1)]);
        else if (key === 'Home') show(order[0]);
        else if (key === 'End') show(order[order.length - 1]);
        else return false;
        return true;
      });
    canvas.addEventListener('focus', () => { if (chosen < 0) show(bySize()[0] || 0); });
    const point = (event) => {
      const i = event.target.dataset ? event.target.dataset.i : undefined;
      if (i !== undefined && +i !== chosen) show(+i);
    };
    canvas.addEventListener('pointerover', point);
    canvas.addEventListener('pointerdown', point);
    drawn.add('map' + run.index);
  };

  // --- pages ---
  for (const button of document.querySelectorAll('[data-enlarge]')) {
    button.hidden = false;
    button.addEventListener('click', () => {
      const large = button.closest('.page').classList.toggle('large');
      button.textContent = large ? 'Make small' : 'Enlarge';
    });
  }

  // --- all of them ---
  for (const figure of document.querySelectorAll('[data-map]')) arenaMap(figure, facts.runs[+figure.dataset.map]);
  for (const figure of document.querySelectorAll('[data-chart]')) lineChart(figure, specs[figure.dataset.chart]());
  let waiting = 0;
  const redraw = () => { for (const chart of charts) chart.draw(); };
  addEventListener('resize', () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(redraw); });
  addEventListener('beforeprint', () => { printing = true; redraw(); });
  addEventListener('afterprint', () => { printing = false; redraw(); });
  root.dataset.drawn = [...drawn].join(' ');
})();
